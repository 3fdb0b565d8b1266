package envelope

// Read is the fast reader without the library's codec.
var Read = read
