package service

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/handlers/apierr"
	"quorate/internal/config"
)

// A replica without the role for a request refuses it, so that no list looks empty.
func TestOtherRolesAreRefused(t *testing.T) {
	public, err := handlers.New(handlers.Options{Node: http.NotFoundHandler()})
	require.NoError(t, err)
	routes := public.Routes()
	for _, role := range []config.Role{config.RoleAPI, config.RoleSign, config.RoleIngest} {
		e := echo.New()
		e.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
		e.Use(refuseOtherRoles(role))
		for _, route := range routes {
			e.Add(route.Method, route.Path, func(c echo.Context) error { return c.NoContent(http.StatusOK) })
		}
		for target, want := range map[string]bool{
			"/v1/signatureAggregator/fuji/aggregateSignatures/x": role == config.RoleSign,
			"/v1/networks/fuji/validators":                       role == config.RoleAPI,
			"/v1/webhooks":                                       role == config.RoleAPI,
			"/v1/icm/messages:stream":                            role == config.RoleAPI,
			"/v2/chains":                                         role == config.RoleAPI,
			"/v2/networks/fuji/metrics/validatorCount":           role == config.RoleAPI,
			"/ext/info":                                          role == config.RoleAPI,
			"/fuji/ext/info":                                     role == config.RoleAPI,
			"/health":                                            true,
			"/docs":                                              true,
		} {
			response := httptest.NewRecorder()
			e.ServeHTTP(response, httptest.NewRequest(http.MethodGet, target, http.NoBody))
			status := http.StatusOK
			if !want {
				status = http.StatusServiceUnavailable
			}
			require.Equal(t, status, response.Code, "%s %s: %s", role, target, response.Body)
		}
	}
}
