import { Button, IconButton, LinkButton } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { Properties } from "../../components/page.tsx";
import { parseExact } from "../../lib/exact-json.ts";
import { timeText } from "../../lib/time.ts";
import type { EventRow } from "./buffer.ts";
import { type EventBody, objectHref } from "./topics.ts";

interface DetailsProps {
  readonly row: EventRow;
  readonly onClose: () => void;
  /** Follows only this object from now on. */
  readonly onFollow: (filter: string) => void;
}

/** One event and its JSON, beside the list. */
export function Details({ row, onClose, onFollow }: DetailsProps) {
  const line = parseExact(row.line) as { readonly Events: readonly EventBody[] };
  const event = line.Events[row.at];
  const address = event ? objectHref(event) : null;
  return (
    <section class="card events-details" aria-label={`Event ${row.index}`}>
      <header class="card-head">
        <h2>
          {row.type} at {row.index}
        </h2>
        <IconButton icon="close" label="Close the event" onClick={onClose} />
      </header>
      <div class="card-body">
        <Properties
          items={[
            ["Topic", row.topic],
            ["Object", <span class="mono">{row.name}</span>],
            ["Key", row.name === row.key ? "" : <span class="mono">{row.key}</span>],
            ["Filter keys", event?.FilterKeys?.length ? <span class="mono">{event.FilterKeys.join(", ")}</span> : ""],
            ["Time", row.happened === null ? "" : timeText(row.happened)],
            ["Received", timeText(row.received)],
            ["Namespace", row.namespace],
            ["Line", row.of > 1 ? `event ${row.at + 1} of the ${row.of} of one change` : ""],
          ]}
        />
        <div class="button-row">
          {address && (
            <LinkButton href={address} icon="link">
              Open the object
            </LinkButton>
          )}
          <Button icon="events" onClick={() => onFollow(`${row.topic}:${row.key}`)}>
            Follow this object only
          </Button>
        </div>
        <Json value={event} label="the event as JSON" />
        {row.of > 1 && (
          <details class="more-fields">
            <summary>The whole line with its {row.of} events</summary>
            <Json value={line} label="the line as JSON" />
          </details>
        )}
      </div>
    </section>
  );
}
