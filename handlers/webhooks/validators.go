package webhooks

import (
	"context"
	"slices"
	"strconv"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/data"
	"quorate/handlers/jsonbody"
	"quorate/handlers/networks"
	"quorate/handlers/reply"
	"quorate/internal/webhook"
)

// maxFilterIDs is the maximum number of IDs in a filter of a webhook.
const maxFilterIDs = 100

// readValidatorActivity sets what a webhook for the events of validators watches.
func (a *API) readValidatorActivity(ctx context.Context, o jsonbody.Object, w *webhook.Webhook) error {
	if o.Has("chainId") {
		return apierr.BadRequest("chainId: webhooks for %s have none; name the network whose validators are watched with network", webhook.ValidatorActivity)
	}
	if err := refuseIncludes(o); err != nil {
		return err
	}
	m, err := o.Object("metadata", "keyType", "keys", "subEvents", "nodeIds", "subnetIds", "l1ValidatorFeeBalanceThreshold", "eventSignatures")
	if err != nil {
		return err
	}
	if w.Validators, err = readValidatorFilter(m); err != nil {
		return err
	}
	name, err := o.String("network")
	switch {
	case err != nil:
		return err
	case name == "":
		return apierr.BadRequest("network is missing; name the network whose validators are watched, such as mainnet")
	}
	configured, n, err := a.networks.Find(name, "the validators of ")
	if err != nil {
		return err
	}
	w.Chain, w.ChainID, w.Network = webhook.PChain(n.NetworkID), pChain, networks.DisplayName(configured)
	w.From, err = beginValidators(ctx, &n)
	return err
}

// refuseIncludes returns an error if a request asks for parts of messages that those about validators do not have.
func refuseIncludes(o jsonbody.Object) error {
	for _, name := range []string{"includeInternalTxs", "includeLogs"} {
		if o.Has(name) {
			return apierr.BadRequest("%s: is only for webhooks for %s", name, webhook.AddressActivity)
		}
	}
	return nil
}

// pChain is the P-Chain's name in answers.
const pChain = "p-chain"

// beginValidators returns the first block whose events of validators a new webhook reports.
func beginValidators(ctx context.Context, n *data.Network) (uint64, error) {
	if n.Needs != "" {
		return 0, reply.Lacking(nil, "the validators of this network are not indexed: %s", n.Needs)
	}
	if n.RegistryProgress == nil {
		return 0, reply.Lacking(nil, "this instance has no index of validators on this network")
	}
	p := n.RegistryProgress(ctx)
	if !p.CaughtUp || p.Rebuilding {
		return 0, p.Behind("the P-Chain")
	}
	return p.Height + 1, nil
}

// readValidatorFilter parses the metadata of a webhook for the events of validators.
func readValidatorFilter(m jsonbody.Object) (*webhook.ValidatorFilter, error) {
	if m.Has("eventSignatures") {
		return nil, apierr.BadRequest("metadata.eventSignatures: only webhooks for %s have them", webhook.AddressActivity)
	}
	f := new(webhook.ValidatorFilter)
	keyType, err := m.String("keyType")
	if err != nil {
		return nil, err
	}
	keys, err := m.Strings("keys", 1)
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0:
		return nil, apierr.BadRequest("metadata.keys is missing; give one node ID or one subnet ID, as metadata.keyType says")
	}
	switch keyType {
	case "nodeId":
		f.NodeID, err = parseID("metadata.keys[0]", "node ID", keys[0], cb58.NodeID)
	case "subnetId":
		f.SubnetID, err = parseID("metadata.keys[0]", "subnet ID", keys[0], cb58.ID)
	default:
		err = apierr.BadRequest("metadata.keyType: must be nodeId or subnetId, got %q", apierr.Excerpt(keyType))
	}
	if err == nil {
		f.NodeIDs, err = readIDs(m, "nodeIds", "node ID", cb58.NodeID)
	}
	if err == nil {
		f.SubnetIDs, err = readIDs(m, "subnetIds", "subnet ID", cb58.ID)
	}
	if err == nil {
		err = readSubEvents(m, f)
	}
	return f, err
}

// readSubEvents sets the kinds of events that a webhook reports, and the threshold that one of them needs.
func readSubEvents(m jsonbody.Object, f *webhook.ValidatorFilter) error {
	o, err := m.Object("subEvents", "validatorActivitySubEvents")
	if err != nil {
		return err
	}
	names, err := o.Strings("validatorActivitySubEvents", 2*len(webhook.SubEvents))
	if err != nil {
		return err
	}
	const field = "metadata.subEvents.validatorActivitySubEvents"
	if len(names) == 0 {
		return apierr.BadRequest("%s is missing; give at least one of %v", field, webhook.SubEvents)
	}
	for i, name := range distinct(names) {
		e := webhook.SubEvent(name)
		if !slices.Contains(webhook.SubEvents, e) {
			return apierr.BadRequest("%s[%d]: must be one of %v, got %q", field, i, webhook.SubEvents, apierr.Excerpt(name))
		}
		f.SubEvents = append(f.SubEvents, e)
	}
	threshold, err := m.String("l1ValidatorFeeBalanceThreshold")
	if err != nil {
		return err
	}
	wanted := slices.Contains(f.SubEvents, webhook.L1BalanceThreshold)
	switch {
	case wanted && threshold == "":
		return apierr.BadRequest("metadata.l1ValidatorFeeBalanceThreshold is missing; give a balance in nAVAX for %s", webhook.L1BalanceThreshold)
	case !wanted && threshold != "":
		return apierr.BadRequest("metadata.l1ValidatorFeeBalanceThreshold: is only for %s; add it to %s", webhook.L1BalanceThreshold, field)
	case wanted:
		if f.Threshold, err = strconv.ParseUint(threshold, 10, 64); err != nil || f.Threshold == 0 {
			return apierr.BadRequest("metadata.l1ValidatorFeeBalanceThreshold: must be a number of nAVAX from 1 on, got %q", apierr.Excerpt(threshold))
		}
	}
	return nil
}

// parseID parses an ID of a kind.
func parseID[ID any](field, kind, text string, parse func(string) (ID, error)) (*ID, error) {
	id, err := parse(text)
	if err != nil {
		return nil, apierr.BadRequest("%s: %q is no %s; check it for typing errors", field, apierr.Excerpt(text), kind)
	}
	return &id, nil
}

// readIDs parses a list of IDs of a kind.
func readIDs[ID any](m jsonbody.Object, name, kind string, parse func(string) (ID, error)) ([]ID, error) {
	texts, err := m.Strings(name, maxFilterIDs)
	if err != nil {
		return nil, err
	}
	var all []ID
	for i, text := range texts {
		id, err := parseID("metadata."+name+"["+strconv.Itoa(i)+"]", kind, text, parse)
		if err != nil {
			return nil, err
		}
		all = append(all, *id)
	}
	return all, nil
}

// validatorMetadata is the metadata of a webhook for the events of validators.
type validatorMetadata struct {
	KeyType   string             `json:"keyType"`
	Keys      []string           `json:"keys"`
	SubEvents validatorSubEvents `json:"subEvents"`
	NodeIDs   []ids.NodeID       `json:"nodeIds,omitempty"`
	SubnetIDs []ids.ID           `json:"subnetIds,omitempty"`
	Threshold string             `json:"l1ValidatorFeeBalanceThreshold,omitempty"`
}

type validatorSubEvents struct {
	All []webhook.SubEvent `json:"validatorActivitySubEvents"`
}

func showFilter(f *webhook.ValidatorFilter) validatorMetadata {
	m := validatorMetadata{SubEvents: validatorSubEvents{f.SubEvents}, NodeIDs: f.NodeIDs, SubnetIDs: f.SubnetIDs}
	if f.NodeID != nil {
		m.KeyType, m.Keys = "nodeId", []string{f.NodeID.String()}
	} else {
		m.KeyType, m.Keys = "subnetId", []string{f.SubnetID.String()}
	}
	if f.Threshold > 0 {
		m.Threshold = strconv.FormatUint(f.Threshold, 10)
	}
	return m
}
