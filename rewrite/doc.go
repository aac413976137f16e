// Package rewrite turns SQL text into a Plan: which statements it holds, what each does to the transaction, the
// session and the fenced tables. PostgreSQL's own grammar decides; it runs only when neither the exact text nor its
// token shape is cached. What cannot be read is EffectUnknown, what calls unknown code is EffectOpaque; neither is ever
// reported as harmless. The package knows SQL text only: no sockets, no protocol, no tokens' values beyond literals.
package rewrite
