// Package compat decides, once per request, whether the answer takes the form
// that the generated official clients decode where it differs from the
// documented one: status 201 for aggregation, upper-case index states, numbers
// for some strings.
package compat

import (
	"context"
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"
)

// Mode says who gets the clients' form.
type Mode string

const (
	// Auto gives it to requests whose User-Agent is a generated client's.
	Auto Mode = "auto"
	// On gives it to everyone.
	On Mode = "on"
	// Off gives it to nobody.
	Off Mode = "off"
)

// ParseMode reads a configured mode; empty means Auto.
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

// Middleware decides for each request and leaves the decision in its context.
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

// Enabled reports whether the request of ctx gets the clients' form.
func Enabled(ctx context.Context) bool {
	on, _ := ctx.Value(key{}).(bool)
	return on
}
