package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
	"quorate/internal/index"
	"quorate/internal/index/primary"
)

// Rebuild is the progress of a rebuild of the index of the P-Chain, X-Chain and C-Chain.
type Rebuild struct {
	Stage string `json:"stage"`
	// Percent is the share of the current index that the new one has reached.
	Percent int `json:"percent"`
	// Forms are the parts of the index.
	Forms []index.FormChange `json:"forms"`
}

// String returns one line for people.
func (r *Rebuild) String() string {
	text := r.Stage
	if r.Stage == index.RebuildBeside.String() {
		text = fmt.Sprintf("%s, %d%%", text, r.Percent)
	}
	var forms []string
	for _, f := range r.Forms {
		forms = append(forms, fmt.Sprintf("%s from form %d to %d", f.Name, f.From, f.To))
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(forms, ", "))
}

// rebuildOf returns nil if there is no rebuild.
func rebuildOf(ctx context.Context, slots *index.Slots) (*Rebuild, error) {
	if slots == nil {
		return nil, nil
	}
	stage, err := slots.Stage(ctx)
	if err != nil || stage == index.NoRebuild {
		return nil, err
	}
	r := &Rebuild{Stage: stage.String()}
	switch stage {
	case index.RebuildBeside:
		if r.Percent, err = primary.Rebuilt(ctx, slots); err != nil {
			return nil, err
		}
	case index.RebuildDone:
		r.Percent = 100
	}
	r.Forms, err = slots.Changes(ctx)
	return r, err
}

// askRebuild is POST /index/rebuild.
func askRebuild(slots *index.Slots) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		err := slots.Ask(ctx)
		if errors.Is(err, index.ErrRebuilding) {
			return &apierr.Error{Status: http.StatusConflict, Message: err.Error() + "; GET /index shows its progress"}
		}
		if err != nil {
			return err
		}
		r, err := rebuildOf(ctx, slots)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusAccepted, r)
	}
}
