// Command blsbatch compares two ways to check n signatures of one message, from bytes to
// verdict: one by one with avalanchego's functions, and as one batch with package bls. Both
// read compressed bytes, check encoding, curve and subgroup, and decide about every single
// signature. They alternate in one process, so that their ratio is fair on a noisy machine.
//
//	go -C bench run ./blsbatch [-n 5,50,300,1000] [-runs 7]
package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/bench/rig"
	"quorate/bls"
	"quorate/internal/cputime"
)

func main() {
	sizes := flag.String("n", "5,50,300,1000", "numbers of signatures")
	runs := flag.Int("runs", 7, "`number` of runs; the table has medians")
	rig.Main(func(_ context.Context, r *rig.Run) error {
		runtime.GOMAXPROCS(1)
		fmt.Printf("one processor, medians of the processor time of %d runs\n", *runs)
		table := r.Table("Signatures of one message", []string{"signatures"},
			rig.Column{Title: "one by one ms", Decimals: 2}, rig.Column{Title: "batch ms", Decimals: 2}, rig.Column{Title: "ratio", Decimals: 1})
		for size := range strings.SplitSeq(*sizes, ",") {
			n, err := strconv.Atoi(size)
			if err != nil || n < 1 {
				return fmt.Errorf("-n: %q is not a number of signatures", size)
			}
			single, batch, err := compare(n, *runs)
			if err != nil {
				return err
			}
			if err := table.Add([]string{size}, rig.Milliseconds(single), rig.Milliseconds(batch), float64(single)/float64(batch)); err != nil {
				return err
			}
		}
		return nil
	})
}

// compare returns the median processor times of both ways.
func compare(n, runs int) (single, batch time.Duration, err error) {
	message := []byte("the message that everybody signs")
	keys, signatures := make([]*bls.PublicKey, n), make([][]byte, n)
	for i := range n {
		signer, err := localsigner.New()
		if err != nil {
			return 0, 0, fmt.Errorf("making a key: %w", err)
		}
		signature, err := signer.Sign(message)
		if err != nil {
			return 0, 0, fmt.Errorf("signing: %w", err)
		}
		keys[i], signatures[i] = signer.PublicKey(), ava.SignatureToBytes(signature)
	}
	var took [2][]time.Duration
	for range runs {
		for way, check := range []func([]byte, []*bls.PublicKey, [][]byte) error{oneByOne, together} {
			begun := cputime.Used()
			if err := check(message, keys, signatures); err != nil {
				return 0, 0, err
			}
			took[way] = append(took[way], cputime.Used()-begun)
		}
	}
	return rig.Quantile(took[0], 0.5), rig.Quantile(took[1], 0.5), nil
}

func oneByOne(message []byte, keys []*bls.PublicKey, signatures [][]byte) error {
	for i, compressed := range signatures {
		signature, err := ava.SignatureFromBytes(compressed)
		if err != nil {
			return fmt.Errorf("reading signature %d: %w", i, err)
		}
		if !ava.Verify(keys[i], signature, message) {
			return fmt.Errorf("signature %d does not verify", i)
		}
	}
	return nil
}

func together(message []byte, keys []*bls.PublicKey, signatures [][]byte) error {
	parsed := make([]*bls.Signature, len(signatures))
	for i, compressed := range signatures {
		signature, err := bls.ParseUnchecked(compressed)
		if err != nil {
			return fmt.Errorf("reading signature %d: %w", i, err)
		}
		parsed[i] = signature
	}
	if bad := bls.NewVerifier(message).Verify(keys, parsed); len(bad) > 0 {
		return fmt.Errorf("signatures %v do not verify", bad)
	}
	return nil
}
