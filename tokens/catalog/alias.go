package catalog

// Children are the partitions and inheritance children of the fence that no pattern of the configuration means, as schema
// and name: a statement that names one writes the fence.
func (f FenceView) Children() (names [][2]string) {
	for _, m := range f.All {
		if m.Named == nil {
			names = append(names, [2]string{m.Schema, m.Name})
		}
	}
	return names
}

// Views are the views that are written through to the fence. Not among them are relations that only some statements lead
// on from, such as the parent of a foreign key with ON DELETE CASCADE: guarding every write to these would refuse writes
// that have nothing to do with the fence. A trigger holds those.
func (f FenceView) Views() (names [][2]string) {
	for _, r := range f.Routes {
		if r.Kind == View && r.Events&anyWrite != 0 {
			names = append(names, [2]string{r.Schema, r.Name})
		}
	}
	return names
}
