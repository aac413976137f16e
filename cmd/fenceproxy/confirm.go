package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// confirm says what is about to happen and wants a name typed, which nobody does without reading. what is the kind of
// the name; nothing says what was not done.
func confirm(cmd *cobra.Command, warning, what, name, nothing string) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s\nType the name of the %s to go on: ", warning, what)
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) == name {
		return nil
	}
	if err != nil && answer == "" { // nobody is there to answer
		fmt.Fprintln(cmd.ErrOrStderr())
		return refused(fmt.Errorf("not confirmed, %s; --yes goes on without a question", nothing))
	}
	return refused(fmt.Errorf("not confirmed, %s", nothing))
}
