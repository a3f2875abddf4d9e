/** A list of a screen: load, search, pages, empty and refused, with the form and the menu of its rows. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { WireRequest } from "../api/client.ts";
import type { Need } from "../api/rights.ts";
import { useSettled } from "../lib/live.ts";
import type { Pages, Resource } from "../lib/resource.ts";
import { AsCommand } from "./as-command.tsx";
import { Button } from "./button.tsx";
import { SearchInput } from "./field.tsx";
import { Menu, type MenuItem } from "./menu.tsx";
import { Toolbar } from "./page.tsx";
import { Empty, Loaded } from "./states.tsx";
import { type Column, DataTable, type DataTableProps } from "./table.tsx";

export interface Search {
  /** Names the field for screen readers, such as `Nodes by name or ID`. */
  readonly label: string;
  readonly entered: string;
  readonly onChange: (entered: string) => void;
  /** The entered text once the person has stopped typing. */
  readonly text: string;
}

/** A search by name or ID that the service carries out. */
export function useSearch(label: string): Search {
  const [entered, onChange] = useState("");
  return { label, entered, onChange, text: useSettled(entered.trim()) };
}

/** Called by a form of the list at its end. */
export interface FormEnds {
  readonly onClose: () => void;
  /** Closes the form and reads the list again. */
  readonly onDone: () => void;
}

interface ListScreenProps<Row> extends Pick<DataTableProps<Row>, "columns" | "keyOf" | "hrefOf" | "onOpen"> {
  /** Names the table, and the list in a refusal. */
  readonly label: string;
  readonly resource: Resource<readonly Row[]> | Pages<Row>;
  readonly search?: Search;
  /** Label of the button that opens an empty form. */
  readonly add?: string;
  readonly addNeeds?: Need | undefined;
  /** The form of a row; of a new one without. */
  readonly form?: (row: Row | null, ends: FormEnds) => ComponentChildren;
  /** Actions of a row; `edit` opens its form. */
  readonly menuOf?: (row: Row, edit: MenuItem) => readonly MenuItem[];
  /** Stands before the menu of a row. */
  readonly buttonsOf?: (row: Row) => ComponentChildren;
  /** Title of the list without rows, and of a search that finds none. */
  readonly none: string;
  readonly noMatch?: string;
  /** Text of the empty list: the meaning of its rows, and the first step. */
  readonly children?: ComponentChildren;
  /** First step of a list without rows, where it is not `add`. */
  readonly firstStep?: ComponentChildren;
  readonly request?: WireRequest;
}

export function ListScreen<Row>({
  label,
  resource,
  search,
  add,
  addNeeds,
  form,
  menuOf,
  buttonsOf,
  none,
  noMatch,
  children,
  firstStep,
  request,
  columns,
  ...table
}: ListScreenProps<Row>) {
  const [opened, setOpened] = useState<Row | "new" | null>(null);
  const { keyOf } = table;
  const addButton = add && (
    <Button icon="plus" needs={addNeeds} onClick={() => setOpened("new")}>
      {add}
    </Button>
  );
  const actions: Column<Row> | null = menuOf
    ? {
        key: "actions",
        label: "Actions",
        isLabelHidden: true,
        width: buttonsOf ? "9rem" : "4rem",
        align: "end",
        render: (row) => (
          <span class="button-row">
            {buttonsOf?.(row)}
            <Menu
              label={`Actions of ${keyOf(row)}`}
              items={menuOf(row, { label: "Edit", icon: "edit", onSelect: () => setOpened(row) })}
            />
          </span>
        ),
      }
    : null;
  const isSearching = search !== undefined && search.text !== "";
  return (
    <>
      {search && (
        <Toolbar>
          <SearchInput
            label={search.label}
            value={search.entered}
            onChange={search.onChange}
            placeholder="Name or ID"
          />
        </Toolbar>
      )}
      <Loaded resource={resource} label={label}>
        {(rows) => (
          <>
            {addButton && rows.length > 0 && <Toolbar>{addButton}</Toolbar>}
            <DataTable
              {...table}
              {...("loadMore" in resource && { hasMore: resource.hasMore, loadMore: resource.loadMore })}
              label={label}
              rows={rows}
              columns={actions ? [...columns, actions] : columns}
              empty={
                <div class="card">
                  {isSearching ? (
                    <Empty title={noMatch ?? "Nothing matches the search"} />
                  ) : (
                    <Empty title={none} actions={firstStep ?? addButton}>
                      {children}
                    </Empty>
                  )}
                </div>
              }
            />
          </>
        )}
      </Loaded>
      {request && <AsCommand request={request} />}
      {form &&
        opened !== null &&
        form(opened === "new" ? null : opened, {
          onClose: () => setOpened(null),
          onDone: () => {
            setOpened(null);
            resource.reload();
          },
        })}
    </>
  );
}
