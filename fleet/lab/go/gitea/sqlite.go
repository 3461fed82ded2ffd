package main

import (
	"database/sql"
	"database/sql/driver"
	"net/url"
	"strings"

	"code.gitea.io/gitea/modules/setting"

	_ "modernc.org/sqlite"
)

// The driver that Gitea asks for by name, and whose settings it writes into the name of the database.
type sqlite struct{ driver.Driver }

func init() {
	plain, err := sql.Open("sqlite", "")
	if err != nil {
		panic(err)
	}
	sql.Register("sqlite3", sqlite{plain.Driver()})
	setting.EnableSQLite3 = true
	setting.SupportedDatabaseTypes = append(setting.SupportedDatabaseTypes, "sqlite3")
}

func (s sqlite) Open(name string) (driver.Conn, error) {
	return s.Driver.Open(translated(name))
}

// From the words of one driver to those of the other. A cache that connections share is left out: with a journal of
// its own (WAL) readers do not wait for writers, and with that cache they would.
func translated(name string) string {
	file, query, _ := strings.Cut(name, "?")
	asked, err := url.ParseQuery(query)
	if err != nil {
		return name
	}
	options := url.Values{}
	for key, values := range asked {
		switch key {
		case "cache":
		case "mode", "_txlock":
			options[key] = values
		default: // _busy_timeout=500 is the pragma busy_timeout(500)
			options.Add("_pragma", strings.TrimPrefix(key, "_")+"("+values[0]+")")
		}
	}
	return file + "?" + options.Encode()
}
