package index

import (
	"errors"
	"fmt"

	"quorate/internal/node"
)

// MissingError means that no configured node has data that an index needs. The pipeline retries, but only the operator
// can fix it.
type MissingError struct {
	// Lacks says what is missing and why. Do says what the operator must do. Clients see both.
	Lacks, Do string
	// Err is the nodes' reply; may be nil.
	Err error
}

// Error implements error.
func (e *MissingError) Error() string {
	if e.Err == nil {
		return e.Reason()
	}
	return fmt.Sprintf("%s (%v)", e.Reason(), e.Err)
}

// Unwrap returns the nodes' reply.
func (e *MissingError) Unwrap() error { return e.Err }

// Reason returns what is missing and what to do, without the nodes' reply.
func (e *MissingError) Reason() string { return e.Lacks + "; " + e.Do }

// notOffered turns the refusal of a method into a MissingError if no node offers the method.
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
