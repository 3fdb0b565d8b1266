package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/simnet"
)

// TestFailuresAfterARestart fails to sign a message. After a restart, the console lists the failure and counts it among
// those of the last hour.
func TestFailuresAfterARestart(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 44, Validators: 4})
	require.NoError(t, err)
	defer n.Close()
	dir, networks := t.TempDir(), map[string]*simnet.Network{"fuji": n}
	s := startService(t, dir, networks, "--record", "l1")
	body := fmt.Sprintf(`{"message": "%x", "signingSubnetId": %q}`, n.Message([]byte("failing")).Bytes(), ids.ID{7})
	response, err := http.Post(s.base+"/v1/signatureAggregator/fuji/aggregateSignatures", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	s.stop(t)

	s = startService(t, dir, networks, "--record", "l1")
	defer s.stop(t)
	read := func(path string, to any) bool {
		response, err := http.Get(s.base + "/console/api/" + path)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(to) == nil
	}
	var list struct {
		Failures []struct{ Code, Origin string }
	}
	require.Eventually(t, func() bool { return read("failures?network=fuji", &list) }, time.Minute, 10*time.Millisecond)
	require.Len(t, list.Failures, 1)
	require.Equal(t, "UNKNOWN_SUBNET client", list.Failures[0].Code+" "+list.Failures[0].Origin)
	require.Eventually(t, func() bool {
		var history struct {
			Networks []struct {
				Failed, NotSigned int
				Outcomes          []struct {
					Code  string
					Count int
				}
			}
		}
		if !read("history", &history) || len(history.Networks) != 1 {
			return false
		}
		of := history.Networks[0]
		return of.Failed == 0 && of.NotSigned == 1 && len(of.Outcomes) == 1 && of.Outcomes[0].Code == "UNKNOWN_SUBNET" && of.Outcomes[0].Count == 1
	}, time.Minute, 50*time.Millisecond)
}
