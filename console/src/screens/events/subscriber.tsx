/** The tab that subscribes to event notifications of the secrets API. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { isDenied } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Ago } from "../../components/moments.tsx";
import { Empty } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { plural } from "../../lib/text.ts";
import { durationText, now } from "../../lib/time.ts";
import type { StreamState } from "./stream.ts";
import { MAX_NOTICES, type Notice, Subscription } from "./subscription.ts";

/** Patterns that people ask for; any other one may be typed. */
const TYPES = [
  "*",
  "kv*",
  "kv-v2/*",
  "kv-v2/data-*",
  "kv-v2/data-write",
  "kv-v2/metadata-*",
  "kv-v1/*",
  "lease/*",
  "lease/revoked",
  "aws/*",
  "azure/*",
  "gcp/*",
];

const COLUMNS: readonly Column<Notice>[] = [
  { key: "time", label: "When", width: "8rem", render: ({ time }) => <Ago at={time} /> },
  { key: "type", label: "Type", width: "13rem", render: ({ type }) => <code>{type}</code> },
  { key: "path", label: "Path", render: ({ path }) => <span class="mono">{path}</span> },
  { key: "details", label: "Details", isMinor: true, render: ({ details }) => <span title={details}>{details}</span> },
  { key: "index", label: "Index", width: "6rem", align: "end", isMinor: true, render: ({ index }) => index },
];

/** Says which secrets, leases and engines change while it is subscribed. */
export function Subscriber() {
  const subscription = useMemo(() => new Subscription(), []);
  const [type, setType] = useState("kv*");
  const [filter, setFilter] = useState("");
  useEffect(() => () => subscription.stop(), []);
  const state = subscription.state.value;
  const rows = subscription.notices.value;
  const isOn = state.name !== "paused" && state.name !== "refused";
  return (
    <>
      <form
        class="events-subscribe"
        aria-label="Subscription"
        onSubmit={(event) => {
          event.preventDefault();
          if (isOn) subscription.stop();
          else subscription.start(type.trim(), filter.trim());
        }}
      >
        <TextField label="Event types" value={type} onChange={setType} list={TYPES} mono required disabled={isOn} />
        <TextField
          label="Filter"
          value={filter}
          onChange={setFilter}
          mono
          disabled={isOn}
          placeholder={'data_path matches "^secret/data/app/"'}
        />
        <Button type="submit" kind={isOn ? "normal" : "primary"} icon={isOn ? "pause" : "play"}>
          {isOn ? "Unsubscribe" : "Subscribe"}
        </Button>
      </form>
      <div class="events-bar">
        <Connection state={state} />
        {rows.length > 0 && (
          <span class="muted small">
            {plural(rows.length, "event")}
            {rows.length === MAX_NOTICES && ", the newest ones"}
          </span>
        )}
      </div>
      {state.name === "refused" && <Refused error={state.error} />}
      <DataTable
        label="Event notifications"
        rows={rows}
        columns={COLUMNS}
        keyOf={({ index, type: of, path }) => `${index} ${of} ${path}`}
        empty={
          state.name === "refused" ? (
            ""
          ) : (
            <div class="card">
              <Empty title={isOn ? "Nothing has changed yet" : "Not subscribed"}>
                An event says which secret, lease or engine changed, never a value. You see those on paths where your
                token has list and subscribe.
              </Empty>
            </div>
          )
        }
      />
      <AsCommand request={isOn ? subscription.request : subscription.requestOf(type.trim(), filter.trim())} />
    </>
  );
}

function Connection({ state }: { readonly state: StreamState }) {
  if (state.name === "live") return <Status tone="ok">Subscribed</Status>;
  if (state.name === "connecting") return <Status tone="wait">Connecting</Status>;
  if (state.name === "waiting")
    return (
      <Status tone="warn" title={state.why}>
        {`${state.why}; next attempt in ${durationText(Math.max(0, state.until - now.value))}`}
      </Status>
    );
  return <Status tone="off">Not subscribed</Status>;
}

function Refused({ error }: { readonly error: unknown }) {
  return <ErrorPanel error={error} {...(isDenied(error) && { what: "Event notifications" })} />;
}
