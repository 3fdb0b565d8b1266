package webhooks

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apierr"
	"quorate/handlers/jsonbody"
	"quorate/internal/webhook"
)

// Maximum lengths of texts in a webhook, in bytes.
const (
	maxURL         = 2048
	maxName        = 256
	maxDescription = 1024
)

// readCreate parses the body of a request for a new webhook.
func (a *API) readCreate(c echo.Context) (w webhook.Webhook, err error) {
	body, err := jsonbody.Read(c)
	if err != nil {
		return w, err
	}
	o, err := jsonbody.Parse(body, nil, "eventType", "url", "chainId", "metadata", "name", "description", "includeInternalTxs", "includeLogs", "network")
	if err != nil {
		return w, err
	}
	kind, err := o.String("eventType")
	switch {
	case err != nil:
		return w, err
	case kind == "primary_network_address_activity":
		return w, apierr.BadRequest("eventType: %s is not offered here; use %s or %s", kind, webhook.AddressActivity, webhook.ValidatorActivity)
	case kind != string(webhook.AddressActivity) && kind != string(webhook.ValidatorActivity):
		return w, apierr.BadRequest("eventType: must be %s or %s, got %q", webhook.AddressActivity, webhook.ValidatorActivity, apierr.Excerpt(kind))
	}
	w.EventType = webhook.EventType(kind)
	if err := readTexts(o, &w); err != nil {
		return w, err
	}
	if w.URL == "" {
		return w, apierr.BadRequest("url is missing; name the http or https URL that takes the messages")
	}
	if w.EventType == webhook.ValidatorActivity {
		err = a.readValidatorActivity(c.Request().Context(), o, &w)
	} else {
		err = a.readAddressActivity(c.Request().Context(), o, &w)
	}
	return w, err
}

// readAddressActivity sets what a webhook for the transactions of an EVM chain watches.
func (a *API) readAddressActivity(ctx context.Context, o jsonbody.Object, w *webhook.Webhook) error {
	if o.Has("network") {
		return apierr.BadRequest("network: webhooks for %s have none; name the chain with chainId", webhook.AddressActivity)
	}
	if err := readMetadata(o, w); err != nil {
		return err
	}
	name, err := o.String("chainId")
	switch {
	case err != nil:
		return err
	case name == "":
		return apierr.BadRequest("chainId is missing; name an EVM chain by its chain ID or blockchain ID")
	}
	chain, err := a.chains.Find(name)
	if err != nil {
		return err
	}
	w.Chain, w.ChainID = webhook.EVMChain(chain.BlockchainID.String()), strconv.FormatUint(chain.ChainID, 10)
	w.From, err = begin(ctx, chain)
	return err
}

// readTexts sets the fields that a webhook can be created with and changed to. Absent fields stay as they are.
func readTexts(o jsonbody.Object, w *webhook.Webhook) error {
	for _, field := range []struct {
		name string
		most int
		to   *string
	}{{"url", maxURL, &w.URL}, {"name", maxName, &w.Name}, {"description", maxDescription, &w.Description}} {
		text, err := o.String(field.name)
		if err != nil {
			return err
		}
		if len(text) > field.most {
			return apierr.BadRequest("%s has %d bytes; it may have %d", field.name, len(text), field.most)
		}
		if o.Has(field.name) {
			*field.to = text
		}
	}
	for name, to := range map[string]*bool{"includeInternalTxs": &w.IncludeInternals, "includeLogs": &w.IncludeLogs} {
		value, err := o.Bool(name)
		if err != nil {
			return err
		}
		if o.Has(name) {
			*to = value
		}
	}
	if o.Has("url") {
		return checkURL(w.URL)
	}
	return nil
}

// checkURL reports what is wrong with a receiver's URL. Whether its address is public is checked when the service
// connects: names may resolve to another address at any time.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return apierr.BadRequest("url: must be an http or https URL such as https://example.org/hook")
	case u.User != nil:
		return apierr.BadRequest("url: must not contain a user or password; messages are signed, verify their signature")
	}
	return nil
}

// readMetadata sets the addresses and the event signatures of a webhook.
func readMetadata(o jsonbody.Object, w *webhook.Webhook) error {
	m, err := o.Object("metadata", "addresses", "eventSignatures")
	if err != nil {
		return err
	}
	if w.Addresses, err = addresses(m, "metadata."); err != nil {
		return err
	}
	signatures, err := m.Strings("eventSignatures", webhook.MaxSignatures)
	if err != nil {
		return err
	}
	for i, text := range signatures {
		if !isHex(text, common.HashLength) {
			return apierr.BadRequest("metadata.eventSignatures[%d]: %q is no event signature; give 0x and 64 hexadecimal digits", i, apierr.Excerpt(text))
		}
		signatures[i] = strings.ToLower(text)
	}
	w.EventSignatures = distinct(signatures)
	return nil
}

// addresses returns the addresses in an object, with checksums and each once. prefix precedes the field's name in
// errors.
func addresses(o jsonbody.Object, prefix string) ([]string, error) {
	texts, err := o.Strings("addresses", webhook.MaxAddresses)
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return nil, apierr.BadRequest("%saddresses is missing; give 1 to %d addresses", prefix, webhook.MaxAddresses)
	}
	for i, text := range texts {
		if !isHex(text, common.AddressLength) {
			return nil, apierr.BadRequest("%saddresses[%d]: %q is no address; give 0x and 40 hexadecimal digits", prefix, i, apierr.Excerpt(text))
		}
		texts[i] = common.HexToAddress(text).Hex()
	}
	return distinct(texts), nil
}

// readAddresses parses the body of a request that changes the addresses of a webhook.
func readAddresses(c echo.Context) ([]string, error) {
	body, err := jsonbody.Read(c)
	if err != nil {
		return nil, err
	}
	o, err := jsonbody.Parse(body, nil, "addresses")
	if err != nil {
		return nil, err
	}
	return addresses(o, "")
}

// readUpdate parses the body of a request that changes a webhook, and returns the change.
func (a *API) readUpdate(c echo.Context) (func(*webhook.Webhook) error, error) {
	body, err := jsonbody.Read(c)
	if err != nil {
		return nil, err
	}
	o, err := jsonbody.Parse(body, nil, "name", "description", "url", "status", "includeInternalTxs", "includeLogs")
	if err != nil {
		return nil, err
	}
	status, err := o.String("status")
	if err != nil {
		return nil, err
	}
	if o.Has("status") && status != active && status != inactive {
		return nil, apierr.BadRequest("status: must be %s or %s, got %q", active, inactive, apierr.Excerpt(status))
	}
	if err := readTexts(o, new(webhook.Webhook)); err != nil {
		return nil, err
	}
	return func(w *webhook.Webhook) error {
		if w.Validators != nil {
			if err := refuseIncludes(o); err != nil {
				return err
			}
		}
		if err := readTexts(o, w); err != nil {
			return err
		}
		switch status {
		case active:
			return a.activate(c.Request().Context(), w)
		case inactive:
			w.Active = false
		}
		return nil
	}, nil
}
