package config

// Webhooks configures the messages that the service sends to URLs that clients name.
type Webhooks struct {
	// Enabled serves the operations on webhooks and sends messages.
	Enabled bool `yaml:"enabled"`
	// AllowPrivateAddresses permits receivers at addresses that are not public.
	AllowPrivateAddresses bool `yaml:"allow_private_addresses"`
	// PerOwner is the maximum number of active webhooks of an API key.
	PerOwner int `yaml:"per_owner"`
}

// mostPerOwner limits Webhooks.PerOwner.
const mostPerOwner = 500

func (w Webhooks) check(wrong func(format string, args ...any)) {
	if w.PerOwner < 1 || w.PerOwner > mostPerOwner {
		wrong("webhooks.per_owner: %d is not between 1 and %d", w.PerOwner, mostPerOwner)
	}
}
