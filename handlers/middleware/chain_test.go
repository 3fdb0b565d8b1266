package middleware

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

func TestChain(t *testing.T) {
	var passed []string
	pass := func(name string) echo.MiddlewareFunc {
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				passed = append(passed, name)
				return next(c)
			}
		}
	}
	e := echo.New()
	e.Use(pass("first"), Chain(pass("second"), pass("third")), pass("fourth"))
	e.Use(Chain(), Chain(pass("fifth")))
	e.GET("/", func(c echo.Context) error {
		passed = append(passed, c.Path())
		return c.NoContent(http.StatusOK)
	}, pass("route"))
	for path, want := range map[string][]string{
		"/":      {"first", "second", "third", "fourth", "fifth", "route", "/"},
		"/other": {"first", "second", "third", "fourth", "fifth"},
	} {
		for range 2 {
			passed = nil
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, want, passed, path)
			require.Equal(t, path == "/", w.Code == http.StatusOK)
		}
	}
}
