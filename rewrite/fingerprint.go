package rewrite

import "hash/fnv"

// fingerprint names a shape in logs: the same in every process, and for texts that differ only in literals. It is no proof
// of anything; caches compare shapes byte by byte.
func fingerprint(shape []byte) uint64 {
	h := fnv.New64a()
	h.Write(shape)
	return h.Sum64()
}

// sign has the statements of a new plan know the shape of their text.
func (p *Plan) sign(shape []byte) {
	sum := fingerprint(shape)
	for i := range p.Statements {
		p.Statements[i].Shape = sum
	}
}
