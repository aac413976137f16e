import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import org.postgresql.PGConnection;

/** The program of package drivers for PostgreSQL's JDBC driver. Address, database and user come from the environment. */
public class Check {
    private static final String INSERT = "INSERT INTO ledger (note) VALUES (?)";

    private interface Work {
        void run() throws SQLException, IOException;
    }

    /** Prints the SQLSTATE that a piece of work ends with. */
    private static void report(String check, Work work) throws IOException {
        String state = "00000";
        try {
            work.run();
        } catch (BatchUpdateException e) { // the first cause has PostgreSQL's code
            state = e.getNextException() != null ? e.getNextException().getSQLState() : e.getSQLState();
        } catch (SQLException e) {
            state = e.getSQLState();
        }
        System.out.println(check + ": " + state);
    }

    private static Connection connect(String options) throws SQLException {
        var env = System.getenv();
        var properties = new Properties();
        properties.setProperty("user", env.get("PGUSER"));
        properties.setProperty("prepareThreshold", "2"); // named statements from the second execution on
        if (!options.isEmpty()) {
            properties.setProperty("options", options);
        }
        return DriverManager.getConnection(
                "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE"), properties);
    }

    private static void run(Connection conn, String sql) throws SQLException {
        try (Statement s = conn.createStatement()) {
            s.execute(sql);
        }
    }

    private static String value(Connection conn, String sql) throws SQLException {
        try (Statement s = conn.createStatement(); ResultSet r = s.executeQuery(sql)) {
            r.next();
            return r.getString(1);
        }
    }

    private static void write(Connection conn, String note) throws SQLException {
        try (PreparedStatement s = conn.prepareStatement(INSERT)) {
            s.setString(1, note);
            s.executeUpdate();
        }
    }

    private static void copyIn(Connection conn, String note) throws SQLException, IOException {
        conn.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY ledger (note) FROM STDIN", new StringReader((note + "\n").repeat(2)));
    }

    /** A batch is the driver's pipeline: all is sent before the replies are read. */
    private static void pipeline(Connection conn, String note) throws SQLException {
        try (Statement s = conn.createStatement()) {
            s.addBatch("SET application_name = 'a'");
            s.addBatch("INSERT INTO ledger (note) VALUES ('" + note + "')");
            s.addBatch("SET application_name = 'b'");
            s.executeBatch();
        }
    }

    private static void cancel(Connection conn) throws SQLException {
        try (Statement s = conn.createStatement()) {
            var asking = new Thread(() -> {
                try {
                    while (!Thread.interrupted()) {
                        Thread.sleep(50);
                        s.cancel();
                    }
                } catch (InterruptedException | SQLException e) {
                    return;
                }
            });
            asking.start();
            try {
                s.execute("SELECT pg_sleep(30)");
            } finally {
                asking.interrupt();
            }
        }
    }

    public static void main(String[] args) throws SQLException, IOException {
        Connection bare = connect("");
        report("no token", () -> write(bare, "no token"));
        run(bare, "SET fence.token = '10'");
        report("token by SET", () -> write(bare, "token by SET"));

        Connection old = connect("-c fence.token=10");
        System.out.println("token at connect: " + value(old, "SELECT current_setting('fence.token')"));
        report("write", () -> run(old, "INSERT INTO ledger (note) VALUES ('write')"));
        PreparedStatement prepared = old.prepareStatement(INSERT);
        report("prepared write", () -> {
            prepared.setString(1, "prepared write");
            for (int i = 0; i < 3; i++) {
                prepared.executeUpdate();
            }
        });
        System.out.println("server-side statement: "
                + value(old, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT INTO ledger%'"));
        old.setAutoCommit(false);
        report("commit", () -> {
            write(old, "commit");
            old.commit();
        });
        report("rollback", () -> {
            write(old, "rollback");
            old.rollback();
        });
        old.setAutoCommit(true);
        report("copy in", () -> copyIn(old, "copy in"));
        var out = new StringWriter();
        old.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT", out);
        System.out.println("copy out: " + out.toString().trim());
        report("pipeline", () -> pipeline(old, "pipeline"));
        report("cancel", () -> cancel(connect("")));

        Connection next = connect("-c fence.token=20");
        System.out.println("takeover: " + value(next, "SELECT current_setting('fence.token')"));

        report("stale write", () -> run(old, "INSERT INTO ledger (note) VALUES ('stale write')"));
        report("stale prepared write", () -> {
            prepared.setString(1, "stale prepared write");
            prepared.executeUpdate();
        });
        old.setAutoCommit(false);
        report("stale transaction", () -> write(old, "stale transaction"));
        report("behind the refusal", () -> run(old, "SELECT 1"));
        old.rollback();
        old.setAutoCommit(true);
        report("stale copy in", () -> copyIn(old, "stale copy in"));
        report("stale pipeline", () -> pipeline(old, "stale pipeline"));
        report("stale SET", () -> run(connect(""), "SET fence.token = '15'"));
        report("stale connect", () -> connect("-c fence.token=15"));
        System.out.println("usable after refusal: " + value(old, "SELECT 42"));
        report("new holder's write", () -> write(next, "new holder's write"));
    }
}
