package index

import (
	"errors"
	"fmt"
)

// ErrViewBehind means that the view for a page of a list lacks blocks that an earlier page includes. Standbys lag
// differently, and each view may come from a different one. Retry.
var ErrViewBehind = errors.New("the view lacks blocks that an earlier page of the list includes")

// CheckPin returns ErrViewBehind unless a view has the last block that earlier pages include. tip is the view's last
// block.
func CheckPin(tip, pin uint64) error {
	if pin > tip {
		return fmt.Errorf("%w: block %d, and the last one is %d", ErrViewBehind, pin, tip)
	}
	return nil
}
