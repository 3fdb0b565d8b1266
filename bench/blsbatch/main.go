// Command blsbatch compares two ways of checking n signatures of one message,
// from bytes to verdict: one by one with avalanchego's own functions, and as one
// batch with ours. Both start from compressed bytes, check encoding, curve and
// subgroup, and vouch for every single signature. The two alternate in one
// process, so that their ratio is fair on a noisy machine.
//
//	go -C bench run ./blsbatch [-n 5,50,300,1000] [-runs 7] [-procs 1]
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/bench/rig"
	"quorate/bls"
)

func main() {
	sizes := flag.String("n", "5,50,300,1000", "numbers of signatures")
	runs := flag.Int("runs", 7, "runs of each way; the median counts")
	procs := flag.Int("procs", 1, "processors to use")
	figures := flag.String("json", "", "write what was measured to this `file`, too, as lines of JSON")
	flag.Parse()
	told, err := rig.OpenLog(*figures)
	if err != nil {
		log.Fatal(err)
	}
	runtime.GOMAXPROCS(*procs)
	fmt.Printf("%s/%s, %d of %d processors, %s; medians of %d runs\n\n", runtime.GOOS, runtime.GOARCH, *procs, runtime.NumCPU(), runtime.Version(), *runs)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "signatures\tone by one ms\tbatch ms\tratio\t")
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			log.Fatalf("-n: %q is no number of signatures", text)
		}
		if err := compare(w, n, *runs, told); err != nil {
			log.Fatal(err)
		}
	}
	if err := errors.Join(w.Flush(), told.Close()); err != nil {
		log.Fatal(err)
	}
}

func compare(w *tabwriter.Writer, n, runs int, told *rig.Log) error {
	message := []byte("the message that everybody signs")
	keys := make([]*bls.PublicKey, n)
	answers := make([][]byte, n)
	for i := range n {
		signer, err := localsigner.New()
		if err != nil {
			return fmt.Errorf("making a key: %w", err)
		}
		signature, err := signer.Sign(message)
		if err != nil {
			return fmt.Errorf("signing: %w", err)
		}
		keys[i], answers[i] = signer.PublicKey(), ava.SignatureToBytes(signature)
	}
	var single, batch []time.Duration
	for range runs {
		start := time.Now()
		if err := oneByOne(message, keys, answers); err != nil {
			return err
		}
		single = append(single, time.Since(start))
		start = time.Now()
		if err := together(message, keys, answers); err != nil {
			return err
		}
		batch = append(batch, time.Since(start))
	}
	a, b := median(single), median(batch)
	fmt.Fprintf(w, "%d\t%.2f\t%.2f\t%.1f\t\n", n, a.Seconds()*1e3, b.Seconds()*1e3, float64(a)/float64(b))
	return told.Add(map[string]string{"signatures": strconv.Itoa(n)}, map[string]float64{
		"single_ms": a.Seconds() * 1e3, "batch_ms": b.Seconds() * 1e3, "ratio": float64(a) / float64(b),
	})
}

func oneByOne(message []byte, keys []*bls.PublicKey, answers [][]byte) error {
	for i, answer := range answers {
		signature, err := ava.SignatureFromBytes(answer)
		if err != nil {
			return fmt.Errorf("reading signature %d: %w", i, err)
		}
		if !ava.Verify(keys[i], signature, message) {
			return fmt.Errorf("signature %d does not verify", i)
		}
	}
	return nil
}

func together(message []byte, keys []*bls.PublicKey, answers [][]byte) error {
	signatures := make([]*bls.Signature, len(answers))
	for i, answer := range answers {
		signature, err := bls.ParseUnchecked(answer)
		if err != nil {
			return fmt.Errorf("reading signature %d: %w", i, err)
		}
		signatures[i] = signature
	}
	if bad := bls.NewVerifier(message).Verify(keys, signatures); len(bad) > 0 {
		return fmt.Errorf("signatures %v do not verify", bad)
	}
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
