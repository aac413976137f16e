package tokens

// Token is a fencing token: [epoch.]counter, ordered by epoch, then counter. Both are 0..2^63-1. The zero Token is the
// valid token 0; absence is a List without an item for the fence.
type Token struct {
	Epoch   int64
	Counter int64
}

// Item is one entry of the session parameter fence.token. Fence is "" for a bare token.
type Item struct {
	Fence string
	Token Token
}

// List is a parsed fence.token value in the order written. The empty List means absent (” or whitespace only).
type List []Item
