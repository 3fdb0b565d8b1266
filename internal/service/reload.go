package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"quorate/handlers/access"
	"quorate/handlers/middleware"
	"quorate/internal/config"
)

// Reload says when and how the configuration is read again. The zero value means never.
type Reload struct {
	// Requests receives a value each time the configuration is to be read again.
	Requests <-chan os.Signal
	// Read reads the configuration. If it returns mistakes, the one before stays in use.
	Read func() (c config.Config, mistakes []string)
	// Done is called when the configuration is in use or refused.
	Done func()
}

// rounds returns the most signing rounds of a network at a time, of all clients and of one.
func (p *process) rounds() (all, perClient int) {
	l := p.limits.Load()
	return l.Rounds, l.RoundsPerClient
}

// body returns the limits of a request body.
func (p *process) body() middleware.BodyLimits {
	l := p.limits.Load()
	return middleware.BodyLimits{Size: int64(l.Body), Time: l.BodyTime}
}

// reloads reloads the configuration at each request until ctx ends.
func (s *surface) reloads(ctx context.Context) {
	r := s.process.options.Reload
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Requests: // never if it is nil
		}
		c, mistakes := r.Read()
		if len(mistakes) == 0 {
			if err := s.reload(c); err != nil {
				mistakes = []string{err.Error()}
			}
		}
		for _, mistake := range mistakes {
			s.process.log.Error("the configuration is not reloaded; the one before stays in use", slog.String("mistake", mistake))
		}
		r.Done()
	}
}

// reload puts a configuration without mistakes into use, as far as that needs no restart. It logs which other keys differ.
// After an error nothing has changed.
func (s *surface) reload(c config.Config) error {
	p := s.process
	running := s.running
	running.Surface = c.Surface
	// These are part of the server or of what others share.
	l := &running.Limits
	l.Header, l.HeaderTime, l.Stall = s.running.Limits.Header, s.running.Limits.HeaderTime, s.running.Limits.Stall
	running.TrustedProxies, running.ProxyHeader = s.running.TrustedProxies, s.running.ProxyHeader
	running.CORSOrigins, running.Tracing = s.running.CORSOrigins, s.running.Tracing
	if s.certificate == nil || c.TLS.Cert == "" { // HTTPS is neither turned on nor off
		running.TLS = s.running.TLS
	}

	if err := s.guard.SetClasses(classesOf(running)); err != nil {
		return fmt.Errorf("rate_classes: %w", err)
	}
	if s.certificate != nil {
		if err := s.certificate.Replace(running.TLS.Cert, running.TLS.Key); err != nil {
			return errors.Join(fmt.Errorf("tls: %w", err), s.guard.SetClasses(classesOf(s.running)))
		}
	}
	s.listener.SetLimits(l.Connections, l.ConnectionsPerAddress)
	p.limits.Store(l)
	changed := config.Changed(s.running, running)
	s.running = running
	p.log.Info("configuration reloaded", slog.String("changed", strings.Join(changed, ", ")))
	if later := config.Changed(running, c); len(later) > 0 {
		p.log.Warn("these keys differ from the configuration in use and need a restart", slog.String("keys", strings.Join(later, ", ")))
	}
	return nil
}

// classesOf returns the configured allowances by name.
func classesOf(c config.Config) map[string]access.Class {
	classes := make(map[string]access.Class, len(c.RateClasses))
	for name, class := range c.RateClasses {
		classes[name] = class.Class()
	}
	return classes
}
