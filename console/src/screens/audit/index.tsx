/** The audit log: a search over what the bound bucket keeps, or the last lines of one isolate. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { href, place, setQuery } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { SearchInput, Segments } from "../../components/field.tsx";
import { Facts, Page, Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { useLiveList, useSettled } from "../../lib/live.ts";
import { plural } from "../../lib/text.ts";
import { timeText } from "../../lib/time.ts";
import { endOf, type Line, objectHref, textOf, titleOf } from "./lines.ts";

const SEARCH = "GET /v1/sys/audit/lines";
const KINDS = [
  { value: "all", label: "All" },
  { value: "answer", label: "Answers" },
  { value: "action", label: "Actions" },
  { value: "request", label: "Requests" },
] as const;

const ABOUT = "Every request and every action of the service, newest first, without values, tokens or addresses.";
const PAGE = 200;
/** Prefixes of tokens. A token is in no line, and has no place in an address. */
const TOKEN = /^(hv[sbr]|s|b)\./;

export default function AuditScreen() {
  const kind = KINDS.find(({ value }) => value === place.value.query.get("kind"))?.value ?? "answer";
  return (
    <Page title="Audit" about={ABOUT}>
      <AuditLog kind={kind}>
        <Segments label="Kind of line" value={kind} options={KINDS} onChange={(chosen) => setQuery({ kind: chosen })} />
      </AuditLog>
    </Page>
  );
}

const WHO: Column<Line> = {
  key: "who",
  label: "Accessor",
  width: "17rem",
  isMinor: true,
  render: (line) => <span class="mono">{textOf(line, "accessor")}</span>,
};

interface LogProps {
  readonly kind: (typeof KINDS)[number]["value"];
  /** Reads the newest lines again and again. */
  readonly everyMs?: number;
  readonly children?: ComponentChildren;
}

/** Search field, lines, and the details of one. */
export function AuditLog({ kind, everyMs = 0, children }: LogProps) {
  const [search, setSearch] = useState(place.value.query.get("q") ?? "");
  const [opened, setOpened] = useState<Line | null>(null);
  const [told, setTold] = useState({ source: "", searched: 0 });
  const settled = useSettled(search.trim(), 400);
  const isToken = TOKEN.test(settled);
  const text = isToken ? "" : settled;
  const options = {
    // The log is that of the deployment, whichever namespace is selected.
    namespace: "",
    query: { text, limit: PAGE, ...(kind === "all" ? {} : { kind }) },
  };
  const lines = useLiveList(
    ["audit", text, kind],
    async (from, more) => {
      const { data } = await api(SEARCH, { ...options, query: { ...options.query, cursor: from ?? "" }, ...more });
      setTold(({ searched }) => ({ source: data.source, searched: (from === null ? 0 : searched) + data.searched }));
      return { rows: data.lines, next: data.next || null };
    },
    { everyMs },
  );
  const find = (entered: string): void => {
    setSearch(entered);
    setQuery({ q: TOKEN.test(entered) ? null : entered });
    setOpened(null);
  };
  return (
    <>
      <Toolbar>
        <SearchInput
          label="Lines with this text"
          value={search}
          onChange={find}
          placeholder="Path, accessor, request id"
        />
        {children}
        <Button icon="refresh" onClick={lines.reload}>
          Refresh
        </Button>
        {told.source !== "" && (
          <span class="muted small" role="status">
            {plural(told.searched, "line")} searched{lines.hasMore ? " so far" : ""}
          </span>
        )}
      </Toolbar>
      {isToken && <p class="notice">No line holds a token. Search for its accessor; Access shows it.</p>}
      {told.source === "isolate" && (
        <p class="notice">
          No bucket is bound, so these are the last 1,000 lines of the isolate that answers. Bind AUDIT_BUCKET to keep
          and search them all (docs/operate/audit.md).
        </p>
      )}
      <Loaded resource={lines} label="Lines">
        {(rows) => (
          <DataTable
            label="Lines of the audit log"
            rows={rows}
            keyOf={(line) => `${line.time} ${line.kind} ${textOf(line, "requestId")} ${titleOf(line)}`}
            onOpen={setOpened}
            hasMore={lines.hasMore}
            loadMore={lines.loadMore}
            columns={[
              { key: "time", label: "Time", width: "13rem", isMinor: true, render: ({ time }) => timeOf(time) },
              { key: "what", label: "What", render: (line) => <span class="mono">{titleOf(line)}</span> },
              { key: "end", label: "Result", width: "36%", render: (line) => <End line={line} /> },
              // Actions name their caller in the result, where they have one.
              ...(kind === "action" ? [] : [WHO]),
            ]}
            empty={
              <div class="card">
                <Empty title={text ? "No line has this text" : "No line yet"}>
                  {text
                    ? "Try a part of a path, such as secret/data, the accessor of a token, or the id of a request."
                    : "Each request and each push of a secret leaves a line. Do something on another screen, then come back."}
                </Empty>
              </div>
            }
          />
        )}
      </Loaded>
      <AsCommand request={wireRequest(SEARCH, options)} />
      {opened && <LineDialog line={opened} onSearch={find} onClose={() => setOpened(null)} />}
    </>
  );
}

const timeOf = (time: string): string => timeText(Date.parse(time));

function End({ line }: { readonly line: Line }) {
  const { tone, word } = endOf(line);
  return (
    <Status tone={tone} title={word}>
      {word}
    </Status>
  );
}

function LineDialog({
  line,
  onSearch,
  onClose,
}: {
  readonly line: Line;
  readonly onSearch: (text: string) => void;
  readonly onClose: () => void;
}) {
  const address = objectHref(line);
  const accessor = textOf(line, "accessor");
  const request = textOf(line, "requestId");
  return (
    <Dialog title={titleOf(line)} shape="side" onClose={onClose}>
      <Facts
        facts={[
          ["Result", <End line={line} />],
          ["Time", timeOf(line.time)],
          ["Duration", line["durationMs"] === undefined ? "" : `${textOf(line, "durationMs")} ms`],
          ["Namespace", textOf(line, "namespace")],
          ["Policies", Array.isArray(line["policies"]) ? line["policies"].join(", ") : ""],
          [
            "Accessor",
            accessor && (
              <a class="mono" href={href("access", [], { tab: "tokens", accessor })}>
                {accessor}
              </a>
            ),
          ],
        ]}
      />
      <div class="button-row">
        {address && (
          <LinkButton href={address} icon="link">
            Open the object
          </LinkButton>
        )}
        {accessor && (
          <Button icon="search" onClick={() => onSearch(accessor)}>
            Lines of this token
          </Button>
        )}
        {request && (
          <Button icon="search" onClick={() => onSearch(request)}>
            Lines of this request
          </Button>
        )}
      </div>
      <Json value={line} label="the line as JSON" />
    </Dialog>
  );
}
