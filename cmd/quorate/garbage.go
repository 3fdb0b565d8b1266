package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// leastGarbage is how much may be made between two collections at least, in
	// bytes: requests that come in during one feel it, and while little is alive
	// the collector would run all the time.
	leastGarbage = 64 << 20
	// mostPercent bounds what is made of that, in percent of what is alive, for
	// the case that much comes alive between two looks.
	mostPercent = 800
)

// spaceCollections keeps garbage collections apart until ctx ends. Where much is
// alive it leaves the collector's usual pace, and the memory limit has the last
// word in either case.
func spaceCollections(ctx context.Context) {
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	usual := debug.SetGCPercent(100)
	defer debug.SetGCPercent(usual)
	if usual != 100 {
		return // somebody has decided otherwise
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	set := usual
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(alive)
		if p := gcPercent(alive[0].Value.Uint64()); p != set {
			debug.SetGCPercent(p)
			set = p
		}
	}
}

// gcPercent is how much garbage to allow, in percent of the bytes alive and in
// steps of 50, as each change is one for the whole process.
func gcPercent(alive uint64) int {
	const step = 50
	p := leastGarbage * 100 / max(alive, 1)
	return int(max(100, min(p/step*step, mostPercent)))
}
