package index

import (
	"errors"
	"fmt"

	"quorate/internal/node"
)

// MissingError says that no configured node has what an index needs. The pipeline asks again,
// but only the operator can change it.
type MissingError struct {
	// Lacks says what is missing and why, Do what the operator must do. Clients see both.
	Lacks, Do string
	// Err is what the nodes answered; may be nil.
	Err error
}

// Error implements error.
func (e *MissingError) Error() string {
	if e.Err == nil {
		return e.Reason()
	}
	return fmt.Sprintf("%s (%v)", e.Reason(), e.Err)
}

// Unwrap returns what the nodes answered.
func (e *MissingError) Unwrap() error { return e.Err }

// Reason returns what is missing and what to do, without what nodes answered.
func (e *MissingError) Reason() string { return e.Lacks + "; " + e.Do }

// notOffered makes a MissingError of the refusal of a method that no node offers.
func notOffered(err error) error {
	var refused *node.RPCError
	var known *MissingError
	if !errors.As(err, &refused) || !refused.NotOffered() || errors.As(err, &known) {
		return err
	}
	return &MissingError{
		Lacks: "the node does not offer " + refused.Method,
		Do:    "wait if it has just started, else use a node that does",
		Err:   err,
	}
}
