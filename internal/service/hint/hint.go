// Package hint has errors that say what their reader can do about them.
package hint

// Error is an error that says what to do about it.
type Error struct {
	Err  error
	Hint string
	// Wrong says that the configuration has to be another one; else something failed.
	Wrong bool
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is what failed.
func (e *Error) Unwrap() error { return e.Err }

// Mistake is a mistake in the configuration, and how to correct it; the hint may be empty.
func Mistake(err error, hint string) error { return &Error{Err: err, Hint: hint, Wrong: true} }

// Failure is what failed while the configuration may be right, and what may help.
func Failure(err error, hint string) error { return &Error{Err: err, Hint: hint} }
