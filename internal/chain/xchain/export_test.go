package xchain

// RegisterTypes registers the types of blocks.
var RegisterTypes = registerTypes
