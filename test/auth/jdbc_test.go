package auth

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const jdbcProgram = `import java.sql.*;
public class Login {
    public static void main(String[] args) throws Exception {
        try (Connection c = DriverManager.getConnection(args[0]);
             ResultSet r = c.createStatement().executeQuery("SELECT current_user")) {
            r.next();
            System.out.println(r.getString(1));
        } catch (SQLException e) {
            System.out.println(e.getSQLState());
        }
    }
}
`

// JDBC has a SCRAM implementation of its own.
func TestScramOfJDBC(t *testing.T) {
	const jar = "/usr/share/java/postgresql.jar"
	if _, err := os.Stat(jar); err != nil {
		t.Skip("libpostgresql-jdbc-java is not installed")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("java is not installed")
	}
	program := filepath.Join(t.TempDir(), "Login.java")
	if err := os.WriteFile(program, []byte(jdbcProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for leg, flags := range map[string][]string{"sslmode=disable": nil, "sslmode=require": w.tls(t)} {
		_, port, _ := net.SplitHostPort(w.start(t, "verify-full", flags...).Addr())
		for secret, want := range map[string]string{strings.ReplaceAll(password, " ", "%20"): "app", "wrong": "28P01"} {
			url := "jdbc:postgresql://localhost:" + port + "/postgres?user=app&password=" + secret + "&" + leg
			out, err := exec.Command("java", "-cp", jar, program, url).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s, %s: %v %s", leg, want, err, got)
			}
		}
	}
}
