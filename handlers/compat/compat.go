// Package compat decides for each request whether the answer has the format that the generated official clients
// decode, where it differs from the documented one: status 201 for aggregation, upper-case index states, numbers for
// some strings, values that are unknown, and errors instead of partial answers.
package compat

import (
	"context"
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"
)

// Mode selects the requests that get the generated clients' format.
type Mode string

const (
	// Auto selects requests whose User-Agent is a generated client's.
	Auto Mode = "auto"
	// On selects all requests.
	On Mode = "on"
	// Off selects no requests.
	Off Mode = "off"
)

// ParseMode parses a configured mode; empty means Auto.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(strings.ToLower(s)); m {
	case "":
		return Auto, nil
	case Auto, On, Off:
		return m, nil
	}
	return "", fmt.Errorf("client_compat %q: must be auto, on or off", s)
}

// clientAgent begins the User-Agent of the generated clients.
const clientAgent = "speakeasy-sdk/"

type key struct{}

// Middleware decides for each request and stores the decision in its context.
func Middleware(m Mode) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			agent := r.UserAgent()
			auto := len(agent) >= len(clientAgent) && strings.EqualFold(agent[:len(clientAgent)], clientAgent)
			if m == On || m != Off && auto {
				c.SetRequest(r.WithContext(context.WithValue(r.Context(), key{}, true)))
			}
			return next(c)
		}
	}
}

// Enabled reports whether the answer to the request of ctx has the generated clients' format.
func Enabled(ctx context.Context) bool {
	on, _ := ctx.Value(key{}).(bool)
	return on
}
