package rewrite

var kindNames = [...]string{
	KindOther: "other", KindEmpty: "empty", KindBegin: "begin", KindCommit: "commit", KindCommitChain: "commit and chain",
	KindRollback: "rollback", KindRollbackChain: "rollback and chain", KindSavepoint: "savepoint",
	KindRollbackTo: "rollback to savepoint", KindRelease: "release savepoint", KindPrepareTx: "prepare transaction",
	KindCommitPrepared: "commit prepared", KindRollbackPrepared: "rollback prepared", KindSetToken: "set token",
	KindResetToken: "reset token", KindSet: "set", KindDiscard: "discard all", KindPrepare: "prepare", KindExecute: "execute",
	KindDeallocate: "deallocate", KindDeclare: "declare cursor", KindFetch: "fetch", KindCopyIn: "copy in",
	KindCopyOut: "copy out", KindCall: "call", KindDo: "do", KindNoBlock: "refuses a transaction block",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid kind"
}

var effectNames = [...]string{"none", "lock", "write", "opaque", "unknown"}

func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return "invalid effect"
}
