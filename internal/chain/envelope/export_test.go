package envelope

// Read is the shortcut alone.
var Read = read
