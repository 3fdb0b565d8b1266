package rig

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Column is a column of numbers in a table.
type Column struct {
	// Title ends with the unit.
	Title    string `json:"title"`
	Decimals int    `json:"decimals"`
}

// Table is what a benchmark measured, in rows of the same kind.
type Table struct {
	Title string `json:"title"`
	// Labels are the titles of the first columns, which say what a row is about.
	Labels  []string `json:"labels"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`

	out *Output
}

// Row is one row of a table.
type Row struct {
	Labels []string  `json:"labels"`
	Values []float64 `json:"values"`
}

// Output prints tables to the standard output and writes them to a file.
type Output struct {
	file *os.File // nil: none
}

// openOutput creates the file. Without a name there is none.
func openOutput(name string) (*Output, error) {
	if name == "" {
		return &Output{}, nil
	}
	file, err := os.Create(name)
	return &Output{file: file}, err
}

func (o *Output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// Table begins a table and prints its head. Other text must not be printed until the last
// row was added.
func (o *Output) Table(title string, labels []string, columns ...Column) *Table {
	t := &Table{Title: title, Labels: labels, Columns: columns, out: o}
	fmt.Printf("\n%s\n\n%s", title, t.Head())
	return t
}

// Add prints a row and writes it to the file.
func (t *Table) Add(labels []string, values ...float64) error {
	if len(labels) != len(t.Labels) || len(values) != len(t.Columns) {
		return fmt.Errorf("table %q has %d labels and %d numbers, a row has %d and %d", t.Title, len(t.Labels), len(t.Columns), len(labels), len(values))
	}
	row := Row{Labels: labels, Values: values}
	fmt.Print(t.Line(row))
	if t.out.file == nil {
		return nil
	}
	one := *t
	one.Rows = []Row{row}
	return json.NewEncoder(t.out.file).Encode(one)
}

// Head returns the head of the table in Markdown.
func (t *Table) Head() string {
	titles := t.Labels[:len(t.Labels):len(t.Labels)]
	for _, column := range t.Columns {
		titles = append(titles, column.Title)
	}
	return line(titles) + strings.Repeat("|---", len(titles)) + "|\n"
}

// Line returns a row of the table in Markdown.
func (t *Table) Line(row Row) string {
	cells := row.Labels[:len(row.Labels):len(row.Labels)]
	for i, value := range row.Values {
		cells = append(cells, strconv.FormatFloat(value, 'f', t.Columns[i].Decimals, 64))
	}
	return line(cells)
}

func line(cells []string) string {
	escaped := strings.ReplaceAll(strings.Join(cells, "\x00"), "|", `\|`)
	return "| " + strings.ReplaceAll(escaped, "\x00", " | ") + " |\n"
}

// ReadTables reads the file of an Output. Rows under the same title form one table.
func ReadTables(name string) (tables []*Table, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	byTitle := make(map[string]*Table)
	for in := json.NewDecoder(bufio.NewReader(file)); ; {
		next := new(Table)
		if err := in.Decode(next); errors.Is(err, io.EOF) {
			return tables, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading figures from %s: %w", name, err)
		}
		if table := byTitle[next.Title]; table != nil {
			table.Rows = append(table.Rows, next.Rows...)
			continue
		}
		byTitle[next.Title] = next
		tables = append(tables, next)
	}
}
