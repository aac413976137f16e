package catalog

// Aliases are the names by which a statement writes the fence, beside those of the configuration, as schema and table: what
// a proxy that guards by names should take for the fence's tables. They are the partitions and children that no pattern
// means, and the views that are written through to it. Not among them are relations that only some statements lead on
// from, such as the parent of a foreign key with ON DELETE CASCADE: guarding every write to these would refuse writes that
// have nothing to do with the fence. A trigger holds those.
func (f FenceView) Aliases() [][2]string {
	var names [][2]string
	for _, m := range f.All {
		if m.Named == nil {
			names = append(names, [2]string{m.Schema, m.Name})
		}
	}
	for _, r := range f.Routes {
		if r.Kind == View && r.Events&anyWrite != 0 {
			names = append(names, [2]string{r.Schema, r.Name})
		}
	}
	return names
}
