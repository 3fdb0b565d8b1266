package conform_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"quorate/handlers/docs/conform"
)

// judged collects what Watch reports.
type judged struct {
	testing.TB
	said string
}

func (*judged) Helper() {}

func (j *judged) Errorf(format string, args ...any) { j.said += fmt.Sprintf(format, args...) }

func TestWatch(t *testing.T) {
	const peer = "/aggregate-signatures"
	for name, c := range map[string]struct {
		path       string
		status     int
		kind, body string
		wrong      string // "" if the answer is as the document has it
	}{
		"right":               {peer, 200, "application/json", `{"signed-message":"00"}`, ""},
		"a missing field":     {peer, 200, "application/json", `{}`, "missing property 'signed-message'"},
		"a field too many":    {peer, 200, "application/json", `{"signed-message":"00","more":1}`, "additional properties 'more' not allowed"},
		"a wrong type":        {peer, 200, "application/json", `{"signed-message":0}`, "got number, want string"},
		"in a shared schema":  {peer, 200, "application/json", `{"signed-message":"00","delivery":{"more":1}}`, "additional properties 'more' not allowed"},
		"two values":          {peer, 200, "application/json", `{"signed-message":"00"} {}`, "invalid character"},
		"another status":      {peer, 418, "application/json", `{}`, "status is not supported"},
		"another type":        {peer, 200, "text/plain", `00`, `no answer 200 of type "text/plain"`},
		"an error of a peer":  {peer, 400, "application/json", `{"error":"no"}`, ""},
		"an error without it": {peer, 400, "application/json", `{"message":"no"}`, "missing property 'error'"},
		"a number too large":  {"/v1/webhooks", 201, "application/json", `{"createdAt":9223372036854775808}`, "value out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			e, watched := echo.New(), &judged{TB: t}
			conform.Watch(watched, e)
			e.POST(c.path, func(ctx echo.Context) error { return ctx.Blob(c.status, c.kind, []byte(c.body)) })
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, c.path, nil))
			require.Equal(t, c.body, w.Body.String())
			if c.wrong == "" {
				require.Empty(t, watched.said)
			} else {
				require.Contains(t, watched.said, c.wrong)
			}
		})
	}
}
