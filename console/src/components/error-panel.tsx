import rightsOfCluster from "rights:cluster";
import type { ComponentChildren } from "preact";
import { ApiError } from "../api/client.ts";
import { session } from "../api/session.ts";
import { readFile } from "../api/transfer.ts";
import { href } from "../app/router.ts";
import { useResource } from "../lib/resource.ts";
import { rightOf } from "../lib/wire.ts";
import { Button } from "./button.tsx";
import { Status } from "./status.tsx";

interface ErrorPanelProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
  /** The failed action, such as `The secrets could not be listed`. */
  readonly title?: string | undefined;
  /** The name of the content, such as `Destinations`. */
  readonly what?: string | undefined;
  /** The remedy. */
  readonly children?: ComponentChildren;
}

/** A failure in the service's own words, with what helps to find it in the log. */
export function ErrorPanel({ error, onRetry, title, what, children }: ErrorPanelProps) {
  const failure = error instanceof ApiError ? error : null;
  const words = failure ? failure.messages : [error instanceof Error ? error.message : String(error)];
  return (
    <div class="error-panel" role="alert" ref={intoView}>
      <Status tone={failure?.isDenied ? "warn" : "bad"}>{title ?? headline(failure)}</Status>
      {failure?.isDenied && session.value && <Lacking refusal={failure} what={what} />}
      {words.map((word) => (
        <p key={word} class="error-words">
          {word}
        </p>
      ))}
      {children && <p class="small muted">{children}</p>}
      {failure?.isDenied && session.value && (
        <p class="small muted">
          Your policies decide this.{" "}
          <a href={href("access", [], { tab: "check", path: rightOf(failure.request)?.path ?? "" })}>
            Check what your token may do
          </a>
        </p>
      )}
      {failure && failure.status > 0 && (
        <details class="muted small">
          <summary>Request</summary>
          <code>
            {failure.status} {failure.request.verb} {failure.request.target.split("?", 1)[0]}
          </code>
          {failure.requestId && (
            <>
              {" "}
              request <code>{failure.requestId}</code>
            </>
          )}
        </details>
      )}
      {onRetry && (
        <Button icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Rights that need `sudo`, too. */
const SUDO = /^(sys\/(audit|leases\/(count|revoke-|lookup.*list$)|remount|snapshot)|auth\/token\/accessors)/;

/** Of an operation, such as `GET /v1/nodes`. */
async function clusterRight(operation: string): Promise<string | undefined> {
  const rights = await readFile<[pattern: string, right: string][]>(rightsOfCluster);
  return rights.find(([pattern]) => new RegExp(`^${pattern}$`).test(operation))?.[1];
}

/** `Your token may not see destinations (sys/sync/destinations: list).` */
export function Lacking({ refusal, what }: { readonly refusal: ApiError; readonly what?: string | undefined }) {
  const { verb, target } = refusal.request;
  const right = rightOf(refusal.request);
  const operation = `${verb} ${target.split("?", 1)[0]}`;
  const ofCluster = useResource(["right", operation], () => clusterRight(operation), { skip: right !== null });
  const capability = right
    ? `${right.capability}${SUDO.test(`${right.path} ${right.capability}`) ? ", sudo" : ""}`
    : ofCluster.value;
  const isRead = verb === "GET" || verb === "LIST";
  return (
    <p class="lacking">
      Your token may not {isRead ? `see ${what ? inSentence(what) : "this"}` : "do this"} (
      <code>{right ? right.path : operation}</code>
      {capability && `: ${capability}`}).
    </p>
  );
}

/** Names such as GitHub keep their capital. */
const inSentence = (label: string): string =>
  /^[A-Z][a-z]*( |$)/.test(label) ? label.charAt(0).toLowerCase() + label.slice(1) : label;

/** A form may be longer than its window. */
const intoView = (element: HTMLElement | null): void => {
  if (element?.closest("form, dialog")) element.scrollIntoView({ block: "nearest" });
};

function headline(failure: ApiError | null): string {
  if (!failure) return "This screen has failed";
  if (failure.isOffline) return "No connection";
  if (failure.status === 403) return "Not allowed";
  if (failure.status === 404) return "Not found";
  if (failure.status === 429) return "Too many requests";
  // Both upstreams answer some mistakes of the caller with 500, in plain words.
  const isRefusal = failure.status === 500 && failure.messages.length > 0 && !/^internal error/i.test(failure.message);
  if (failure.status >= 500 && !isRefusal) return "The service has failed";
  return "Refused";
}
