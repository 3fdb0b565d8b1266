package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
	"quorate/internal/index"
)

// Rebuild is the progress of a rebuild of an index: of the primary chains, or of all EVM chains.
type Rebuild struct {
	// Index is the name of the index: primary or evm.
	Index string `json:"index"`
	Stage string `json:"stage"`
	// Percent is the share of the current index that the new one has reached.
	Percent int `json:"percent"`
	// Forms are the parts of the index that are rebuilt.
	Forms []index.FormChange `json:"forms,omitempty"`
	// Trouble is why the rebuild does not advance; absent while it does.
	Trouble *index.Trouble `json:"trouble,omitempty"`
	// Replaced are parts of the index whose old rows this version cannot read. They are rebuilt in place: requests that
	// need them get 503 until then.
	Replaced []index.Replaced `json:"replaced,omitempty"`
}

// String returns one line for people.
func (r *Rebuild) String() string {
	var parts []string
	if r.Stage != index.NoRebuild.String() {
		text := r.Stage
		if r.Stage == index.RebuildBeside.String() {
			text = fmt.Sprintf("%s, %d%%", text, r.Percent)
		}
		var forms []string
		for _, f := range r.Forms {
			forms = append(forms, fmt.Sprintf("%s from form %d to %d", f.Name, f.From, f.To))
		}
		text = fmt.Sprintf("%s (%s)", text, strings.Join(forms, ", "))
		if r.Trouble != nil {
			text += "; " + r.Trouble.String()
		}
		parts = append(parts, text)
	}
	for _, f := range r.Replaced {
		parts = append(parts, fmt.Sprintf("%s in place, %d%%: this version cannot read form %d, so requests fail until form %d is complete", f.Name, f.Percent, f.From, f.To))
	}
	return strings.Join(parts, "; ")
}

// rebuildsTimeout limits the reads of rebuildsOf. Probes usually wait longer.
const rebuildsTimeout = 2 * time.Second

// rebuildsOf returns the rebuilds that are in progress. It fails if the store does not answer within rebuildsTimeout.
func rebuildsOf(ctx context.Context, all []*index.Slots) (rebuilds []*Rebuild, err error) {
	reading, cancel := context.WithTimeout(ctx, rebuildsTimeout)
	defer cancel()
	for _, slots := range all {
		s, err := slots.Status(reading)
		switch {
		case err != nil && errors.Is(reading.Err(), context.DeadlineExceeded):
			return nil, fmt.Errorf("the store has not answered within %s", rebuildsTimeout)
		case err != nil:
			return nil, err
		}
		if s != nil {
			rebuilds = append(rebuilds, newRebuild(slots.Name(), s))
		}
	}
	return rebuilds, nil
}

func newRebuild(name string, s *index.RebuildStatus) *Rebuild {
	return &Rebuild{Index: name, Stage: s.Stage.String(), Percent: s.Percent, Forms: s.Forms, Trouble: s.Trouble, Replaced: s.Replaced}
}

// askRebuild is POST /index/rebuild. The query parameter index names the index, default primary. With cancel=true, it
// cancels the rebuild.
func askRebuild(all []*index.Slots) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		name := c.QueryParam("index")
		if name == "" {
			name = index.PrimarySlots
		}
		var slots *index.Slots
		var names []string
		for _, one := range all {
			names = append(names, one.Name())
			if one.Name() == name {
				slots = one
			}
		}
		if slots == nil {
			return apierr.BadRequest("index: %q is no index; there are %s", apierr.Excerpt(name), strings.Join(names, " and "))
		}
		change := slots.Ask
		switch cancel := c.QueryParam("cancel"); cancel {
		case "":
		case "true":
			change = slots.Cancel
		default:
			return apierr.BadRequest("cancel: %q is not true", apierr.Excerpt(cancel))
		}
		err := change(ctx)
		if errors.Is(err, index.ErrRebuilding) || errors.Is(err, index.ErrNoRebuild) {
			return &apierr.Error{Status: http.StatusConflict, Message: err.Error() + "; GET /index shows its progress"}
		}
		if err != nil {
			return err
		}
		status, err := slots.Status(ctx)
		if err != nil {
			return err
		}
		if status == nil { // it is finished already
			status = new(index.RebuildStatus)
		}
		return c.JSON(http.StatusAccepted, newRebuild(name, status))
	}
}
