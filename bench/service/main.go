// Command service measures signing through HTTP: the program is built and run as users run
// it, beside simulated validators and the load on the same machine.
//
//	go -C bench run ./service warm     one signed message again and again
//	go -C bench run ./service flood    a million different messages: memory
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/cputime"
	"quorate/internal/simnet"
)

// options are the flags.
type options struct {
	validators, connections, requests int
	memory                            string
	pin                               bool
}

func main() {
	var o options
	flag.IntVar(&o.validators, "validators", 0, "`number` of validators; default: 100, of flood 1")
	flag.IntVar(&o.connections, "c", 64, "`number` of connections")
	flag.IntVar(&o.requests, "n", 0, "`number` of requests; default: 200000 for warm, 1000000 for flood")
	flag.BoolVar(&o.pin, "pin", false, "run the service on processor 0 alone; run this program on another one with taskset -c 1")
	flag.StringVar(&o.memory, "memory-limit", "512MiB", "the service's memory limit")
	rig.Main(func(ctx context.Context, r *rig.Run) error {
		switch {
		case flag.NArg() == 1 && flag.Arg(0) == "warm":
			return o.defaults(100, 200_000).warm(ctx, r)
		case flag.NArg() == 1 && flag.Arg(0) == "flood":
			return o.defaults(1, 1_000_000).flood(ctx, r)
		}
		return fmt.Errorf("arguments %q: give flags and then either warm or flood", flag.Args())
	})
}

func (o options) defaults(validators, requests int) *options {
	if o.validators == 0 {
		o.validators = validators
	}
	if o.requests == 0 {
		o.requests = requests
	}
	return &o
}

func (o *options) processor() string {
	if o.pin {
		return "0"
	}
	return ""
}

// start starts validators that answer at once, and the service.
func (o *options) start(ctx context.Context, r *rig.Run) (*rig.Network, *rig.Service, error) {
	network, err := rig.StartNetwork(ctx, "", simnet.Options{Seed: r.Seed, Validators: o.validators})
	if err != nil {
		return nil, nil, err
	}
	service, err := r.NewService(ctx, "service", "memory_limit: "+o.memory+"\n"+network.Settings("record: all"))
	if err == nil {
		service.Processor = o.processor()
		err = service.Start()
	}
	if err == nil {
		err = service.Ready(ctx)
	}
	if err != nil {
		network.Stop()
		return nil, nil, err
	}
	return network, service, nil
}

// turns is how often the service and the floor take turns, so that other work on the
// machine affects both.
const turns = 5

// subject is a server that answers the same request again and again.
type subject struct {
	name, address     string
	pid               int
	full, half, alone rig.Outcome
	server, client    time.Duration // processor time of full
}

// warm measures requests for a message that is signed already, and the same requests to a
// bare handler that answers with the same bytes.
func (o *options) warm(ctx context.Context, r *rig.Run) error {
	network, service, err := o.start(ctx, r)
	if err != nil {
		return err
	}
	defer network.Stop()
	defer func() { _ = service.Stop(syscall.SIGTERM) }()
	message, err := network.Unsigned("again and again")
	if err != nil {
		return err
	}
	request := rig.Sign("", message.Bytes())
	response, err := service.Post(ctx, request.Path, request.Body)
	if err != nil {
		return err
	}
	floor, err := rig.StartFloor(ctx, o.processor(), response)
	if err != nil {
		return err
	}
	defer floor.Stop()
	if !rig.Pause(ctx, time.Second) { // until the validators have received all requests
		return ctx.Err()
	}
	before, err := network.Counts()
	if err != nil {
		return err
	}
	subjects := []*subject{
		{name: "service", address: service.Public, pid: service.PID()},
		{name: "floor (bare net/http handler)", address: floor.Address, pid: floor.PID()},
	}
	for turn := range turns + 1 {
		for _, s := range subjects {
			into := s
			if turn == 0 { // warms up
				into = &subject{address: s.address, pid: s.pid}
			}
			request.Address = s.address
			if err := into.take(ctx, request, o.connections, max(o.requests/turns, 20)); err != nil {
				return err
			}
		}
	}
	after, err := network.Counts()
	if err != nil {
		return err
	}
	table := r.Table("A signed message again", []string{"server", "connections"},
		rig.Column{Title: "requests/s"}, rig.Column{Title: "CPU us/request", Decimals: 1}, rig.Column{Title: "of the load", Decimals: 1},
		rig.Column{Title: "p50 ms", Decimals: 2}, rig.Column{Title: "p99 ms", Decimals: 2},
		rig.Column{Title: "half the rate: p50 ms", Decimals: 2}, rig.Column{Title: "half the rate: p99 ms", Decimals: 2},
		rig.Column{Title: "one connection: p50 ms", Decimals: 2}, rig.Column{Title: "one connection: p99 ms", Decimals: 2})
	for _, s := range subjects {
		each := func(d time.Duration) float64 { return rig.Microseconds(d) / float64(len(s.full.Times)) }
		if err := table.Add([]string{s.name, strconv.Itoa(o.connections)}, s.full.Rate(), each(s.server), each(s.client),
			rig.Milliseconds(s.full.P50), rig.Milliseconds(s.full.P99), rig.Milliseconds(s.half.P50), rig.Milliseconds(s.half.P99),
			rig.Milliseconds(s.alone.P50), rig.Milliseconds(s.alone.P99)); err != nil {
			return err
		}
	}
	fmt.Printf("\nmeanwhile %d validators received %d requests\n", o.validators, after.Signatures-before.Signatures)
	return nil
}

// take makes requests as fast as they are answered, half as many a second, and over one
// connection.
func (s *subject) take(ctx context.Context, request rig.Request, connections, count int) error {
	same := func(int, int) rig.Request { return request }
	server, client := rig.CPUTime(s.pid), cputime.Used()
	full, err := (rig.Load{Clients: connections, Requests: count}).Run(ctx, same)
	if err != nil {
		return err
	}
	s.server += rig.CPUTime(s.pid) - server
	s.client += cputime.Used() - client
	half, err := (rig.Load{Clients: connections, Requests: count / 2, Every: 2 * full.Clock / time.Duration(count)}).Run(ctx, same)
	if err != nil {
		return err
	}
	alone, err := (rig.Load{Clients: 1, Requests: count / 20}).Run(ctx, same)
	if err != nil {
		return err
	}
	s.full.Add(full)
	s.half.Add(half)
	s.alone.Add(alone)
	return nil
}

// flood has different messages signed and reports the memory. With one validator most of
// the work is what each message takes at least: a signature to make, and a signed message
// to verify.
func (o *options) flood(ctx context.Context, r *rig.Run) error {
	network, service, err := o.start(ctx, r)
	if err != nil {
		return err
	}
	defer network.Stop()
	defer func() { _ = service.Stop(syscall.SIGTERM) }()
	fmt.Printf("%d validators, %d connections, memory limit %s\n", o.validators, o.connections, o.memory)
	table := r.Table("Different messages", []string{"messages"},
		rig.Column{Title: "messages/s"}, rig.Column{Title: "CPU ms/message", Decimals: 2}, rig.Column{Title: "of the validators", Decimals: 2},
		rig.Column{Title: "not signed"}, rig.Column{Title: "resident MB"}, rig.Column{Title: "most MB"})
	const parts = 20
	first := 0 // number of the part's first message
	for part := range parts {
		cpu, validators := service.CPU(), rig.CPUTime(network.PID())
		count := o.requests*(part+1)/parts - first
		if count == 0 {
			continue
		}
		one, err := (rig.Load{Clients: o.connections, Requests: count, Tolerate: true}).Run(ctx, func(_, i int) rig.Request {
			message, err := network.Unsigned(strconv.Itoa(first + i))
			if err != nil { // the content is short and the chain known
				panic(err)
			}
			return rig.Sign(service.Public, message.Bytes())
		})
		if err != nil {
			return err
		}
		first += count
		each := func(d time.Duration) float64 { return rig.Milliseconds(d) / float64(count) }
		now, most := rig.Memory(service.PID())
		if err := table.Add([]string{strconv.Itoa(first)}, one.Rate(), each(service.CPU()-cpu), each(rig.CPUTime(network.PID())-validators),
			float64(one.Failed), now/1e6, most/1e6); err != nil {
			return err
		}
	}
	return nil
}
