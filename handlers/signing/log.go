package signing

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
)

// describe returns the log attributes of a request for a signed message: the message, the subnet that signs, the result
// and the time since start. message and subnet are those of the request, nil if it does not name them; signed is nil if
// it failed.
func describe(message *warp.UnsignedMessage, subnet *ids.ID, signed *aggregator.Result, err error, start time.Time) []slog.Attr {
	result := "failed"
	var failed *aggregator.Error
	switch {
	case err == nil:
		result, message, subnet = "signed", &signed.Message.UnsignedMessage, &signed.SigningSubnetID
	case errors.As(err, &failed):
		result = string(failed.Code)
		if failed.Account != nil {
			subnet = &failed.Account.SigningSubnetID
		}
	}
	attrs := []slog.Attr{slog.String("result", result), slog.Duration("waited", time.Since(start).Round(time.Microsecond))}
	if message != nil {
		attrs = append(attrs, slog.Any("message_id", message.ID()))
	}
	if subnet != nil {
		attrs = append(attrs, slog.Any("subnet", *subnet))
	}
	return attrs
}
