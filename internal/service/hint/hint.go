// Package hint defines errors that state how the operator can resolve them.
package hint

import (
	"errors"
	"syscall"
)

// Error is an error with a hint on how to resolve it.
type Error struct {
	Err  error
	Hint string
	// Wrong reports that the configuration must change; otherwise an operation failed.
	Wrong bool
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Mistake returns an error of the configuration with a hint how to correct it; the hint may be empty.
func Mistake(err error, hint string) error { return &Error{Err: err, Hint: hint, Wrong: true} }

// Failure returns an error that a correct configuration can also cause, with a hint how to resolve it.
func Failure(err error, hint string) error { return &Error{Err: err, Hint: hint} }

// OpenFiles returns what to do about err if the process may open too few files, else otherwise.
func OpenFiles(err error, otherwise string) string {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return "Raise the limit of open files (ulimit -n 65536, or LimitNOFILE= in a systemd unit), then start again."
	}
	return otherwise
}
