/** The audit log: a search over what the bound bucket keeps, or the last lines of one isolate. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { caller, session } from "../../api/session.ts";
import { href, place, setQuery } from "../../app/router.ts";
import { Actor } from "../../components/actor.tsx";
import { AsCommand } from "../../components/as-command.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { SearchInput, Segments, Select } from "../../components/field.tsx";
import { Page, Properties, Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { useLiveList, useSettled } from "../../lib/live.ts";
import { count, plural } from "../../lib/text.ts";
import { momentText, timeText } from "../../lib/time.ts";
import { useFailures } from "./failures.ts";
import { actorOf, endOf, isRead, type Line, objectHref, textOf, titleOf } from "./lines.ts";

const SEARCH = "GET /v1/sys/audit/lines";
const KINDS = [
  { value: "all", label: "All" },
  { value: "answer", label: "Requests" },
  { value: "action", label: "Actions" },
  { value: "request", label: "Attempts" },
] as const;

const ABOUT = "Every request and every action of the service, newest first, without values, tokens or addresses.";
const PAGE = 200;
/** Prefixes of tokens. A token is in no line, and has no place in an address. One that is a UUID has no prefix. */
const TOKEN = /^(hv[sbr]|s|b)\./;

const isTokenText = (text: string): boolean => TOKEN.test(text) || text === session.value?.token;

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
  const [progress, setProgress] = useState({ source: "", searched: 0 });
  const [hidden, setHidden] = useState<"own" | "none" | "all">("own");
  const from = Date.parse(place.value.query.get("from") ?? "");
  const until = Date.parse(place.value.query.get("until") ?? "");
  const settled = useSettled(search.trim(), 400);
  const isToken = isTokenText(settled);
  const text = isToken ? "" : settled;
  const options = {
    // The log is that of the deployment, whichever namespace is selected.
    namespace: "",
    query: {
      text,
      limit: PAGE,
      ...(kind === "all" ? {} : { kind }),
      ...(until ? { before: new Date(until).toISOString() } : {}),
    },
  };
  const lines = useLiveList(
    ["audit", text, kind, until],
    async (from, more) => {
      const { data } = await api(SEARCH, { ...options, query: { ...options.query, cursor: from ?? "" }, ...more });
      setProgress(({ searched }) => ({
        source: data.source,
        searched: (from === null ? 0 : searched) + data.searched,
      }));
      return { rows: data.lines, next: data.next || null };
    },
    { everyMs },
  );
  const read = lines.value ?? [];
  const isPast = Date.parse(read.at(-1)?.time ?? "") < from;
  const inRange = read.filter(({ time }) => !(Date.parse(time) < from) && !(Date.parse(time) > until));
  const own = caller.value?.accessor;
  // A console reads much; what was refused to it is shown.
  const isOwn = (line: Line): boolean => textOf(line, "accessor") === own && Number(line["status"] ?? 0) < 400;
  const rows = inRange.filter((line) => hidden === "none" || !isRead(line) || (hidden === "own" && !isOwn(line)));
  const behind = inRange.length - rows.length;
  const failureOf = useFailures(rows);
  const find = (entered: string): void => {
    setSearch(entered);
    setQuery({ q: isTokenText(entered.trim()) ? null : entered });
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
        {everyMs > 0 ? (
          <Status tone="ok">Live</Status>
        ) : (
          <>
            <Moment label="From" name="from" />
            <Moment label="Until" name="until" />
            <Button icon="refresh" onClick={lines.reload}>
              Refresh
            </Button>
            <Select
              label="Reads"
              value={hidden}
              onChange={(chosen) => setHidden(chosen as typeof hidden)}
              options={[
                ["own", "Without my reads"],
                ["all", "Writes only"],
                ["none", "With all reads"],
              ]}
            />
          </>
        )}
        {progress.source !== "" && (
          <span class="muted small" role="status">
            {plural(progress.searched, "line")} searched{lines.hasMore ? " so far" : ""}
            {behind > 0 && `, ${count(behind)} hidden`}
          </span>
        )}
      </Toolbar>
      {isToken && <p class="notice">No line holds a token. Search for its accessor; Access shows it.</p>}
      {progress.source === "isolate" && (
        <p class="notice">
          These are the last 1,000 lines only, and a restart of the service forgets them. An operator keeps them all by
          binding a bucket: see the guide “Audit log”.
        </p>
      )}
      <Loaded resource={lines} label="Lines">
        {() => (
          <DataTable
            label="Lines of the audit log"
            rows={rows}
            keyOf={(line) => `${line.time} ${line.kind} ${textOf(line, "requestId")} ${titleOf(line)}`}
            onOpen={setOpened}
            hasMore={lines.hasMore && !isPast}
            loadMore={lines.loadMore}
            columns={[
              {
                key: "time",
                label: "Time",
                width: "9rem",
                isMinor: true,
                render: ({ time }) => <span title={timeOf(time)}>{momentText(Date.parse(time))}</span>,
              },
              {
                key: "what",
                label: "What",
                render: (line) => (
                  <span class="mono" title={titleOf(line)}>
                    {titleOf(line)}
                  </span>
                ),
              },
              {
                key: "end",
                label: "Result",
                width: kind === "action" ? "46%" : "20%",
                render: (line) => <End line={line} why={failureOf(line)} />,
              },
              {
                key: "who",
                label: "Who",
                width: "11rem",
                isMinor: true,
                render: (line) => <Actor accessor={actorOf(line)} />,
              },
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
      {opened && (
        <LineDialog
          line={opened}
          why={failureOf(opened)}
          onSearch={(searched) => {
            setHidden("none");
            find(searched);
          }}
          onClose={() => setOpened(null)}
        />
      )}
    </>
  );
}

const timeOf = (time: string): string => timeText(Date.parse(time));

/** One end of the range of time, part of the address. */
function Moment({ label, name }: { readonly label: string; readonly name: string }) {
  return (
    <label class="audit-moment">
      <span class="muted">{label}</span>
      <input
        class="input"
        type="datetime-local"
        value={place.value.query.get(name) ?? ""}
        onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function End({ line, why }: { readonly line: Line; readonly why: string }) {
  const { tone, word } = endOf(line);
  const text = why ? `${word}: ${why}` : word;
  return (
    <Status tone={tone} title={text}>
      {text}
    </Status>
  );
}

function LineDialog({
  line,
  why,
  onSearch,
  onClose,
}: {
  readonly line: Line;
  readonly why: string;
  readonly onSearch: (text: string) => void;
  readonly onClose: () => void;
}) {
  const address = objectHref(line);
  const accessor = actorOf(line);
  const request = textOf(line, "requestId");
  return (
    <Dialog title={titleOf(line)} shape="side" onClose={onClose}>
      <Properties
        items={[
          ["Result", <End line={line} why={why} />],
          ["Who", accessor && <Actor accessor={accessor} />],
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
