package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Figures are a line of what was measured: what it is about, and the numbers, by names
// that have the unit at their end (p50_ms, cpu_us).
type Figures struct {
	Of     map[string]string  `json:"of"`
	Values map[string]float64 `json:"values"`
}

// Log writes figures to a file, a line of JSON each. The zero value drops them.
type Log struct {
	file *os.File
}

// OpenLog makes the file; an empty name makes a Log that drops what it is told.
func OpenLog(name string) (*Log, error) {
	if name == "" {
		return &Log{}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &Log{file}, nil
}

// Add writes a line.
func (l *Log) Add(of map[string]string, values map[string]float64) error {
	if l.file == nil {
		return nil
	}
	return json.NewEncoder(l.file).Encode(Figures{of, values})
}

// Close ends the file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Measure has a benchmark measure until it has done so or the program is interrupted, and
// tell a Log, of which OpenLog says where it is.
func Measure(figures string, measure func(ctx context.Context, told *Log) error) error {
	told, err := OpenLog(figures)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return errors.Join(measure(ctx, told), told.Close())
}

// ReadFigures reads what a Log wrote.
func ReadFigures(name string) (all []Figures, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	for in := json.NewDecoder(bufio.NewReader(file)); ; {
		var one Figures
		if err := in.Decode(&one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("figures in %s: %w", name, err)
		}
		all = append(all, one)
	}
}
