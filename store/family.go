package store

import "fmt"

// Family is a table of rows. Families are few and fixed: dumps, inspection and
// the format version go over the list below.
type Family uint8

// The families. One line adds one. A number is part of every key on disk: it is
// never changed, and never given again after its family is gone.
var (
	// FamilyMeta holds facts about the store itself: format version, accounts.
	FamilyMeta = family(1, "meta")
	// FamilyCursor holds cursors: p is the name, k is empty. See Batch.Move.
	FamilyCursor = family(2, "cursor")
	// FamilyOrder holds the order of insertion of bounded families. See Bounded.
	FamilyOrder = family(3, "order")
	// FamilyMessage holds finished signed messages.
	FamilyMessage = family(4, "message")
	// FamilySignature holds signatures that were proven valid one by one.
	FamilySignature = family(5, "signature")
	// FamilyIndexed says where each index of a chain begins and with which block
	// it ends: p is the name of its cursor, k is empty. See package index.
	FamilyIndexed = family(6, "indexed")
	// FamilyL1Tx holds P-Chain transactions that concern L1s: p is the network ID
	// and the transaction's, k is empty. See package l1record, for the next three, too.
	FamilyL1Tx = family(7, "l1_tx")
	// FamilyL1Height holds the same transactions in their order: p is the network
	// ID, k is the block's height and the transaction's number in it.
	FamilyL1Height = family(8, "l1_height")
	// FamilyL1Subnet holds the conversions of subnets: p is the network ID and the
	// subnet's, k is empty.
	FamilyL1Subnet = family(9, "l1_subnet")
	// FamilyL1Validation holds what befell L1 validators: p is the network ID and
	// the validation's, k is 0 for the beginning, 1 and the nonce for changes.
	FamilyL1Validation = family(10, "l1_validation")
)

// familyNames is written by the declarations above and read-only from then on.
var familyNames [256]string

func family(number uint8, name string) Family {
	if number == 0 || familyNames[number] != "" {
		panic(fmt.Sprintf("family number %d of %q is taken", number, name))
	}
	familyNames[number] = name
	return Family(number)
}

// Families lists all families in the order of their numbers, which is the order
// of dumps.
func Families() []Family {
	var all []Family
	for number, name := range familyNames {
		if name != "" {
			all = append(all, Family(number))
		}
	}
	return all
}

// FamilyNamed finds a family by its name.
func FamilyNamed(name string) (Family, bool) {
	for number, known := range familyNames {
		if known == name && name != "" {
			return Family(number), true
		}
	}
	return 0, false
}

// String is the name: lower case, and fit to name a table.
func (f Family) String() string {
	if name := familyNames[f]; name != "" {
		return name
	}
	return fmt.Sprintf("family(%d)", uint8(f))
}

func (f Family) check() error {
	if familyNames[f] == "" {
		return fmt.Errorf("%w: unknown family %d", ErrInvalid, uint8(f))
	}
	return nil
}
