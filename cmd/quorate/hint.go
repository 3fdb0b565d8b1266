package main

// hintError is an error that says what to do about it.
type hintError struct {
	Err  error
	Hint string
	// Wrong says that the configuration has to be another one; else something failed.
	Wrong bool
}

// Error implements error.
func (e *hintError) Error() string { return e.Err.Error() }

// Unwrap is what failed.
func (e *hintError) Unwrap() error { return e.Err }

// mistakeOf is a mistake in the configuration, and how to correct it; the hint may be empty.
func mistakeOf(err error, hint string) error { return &hintError{Err: err, Hint: hint, Wrong: true} }

// failureOf is what failed while the configuration may be right, and what may help.
func failureOf(err error, hint string) error { return &hintError{Err: err, Hint: hint} }
