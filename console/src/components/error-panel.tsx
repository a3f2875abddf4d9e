import { ApiError } from "../api/client.ts";
import { Button } from "./button.tsx";
import { Status } from "./status.tsx";

interface ErrorPanelProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
  /** What failed, such as `The secrets could not be listed`. */
  readonly title?: string;
}

/** A failure in the service's own words, with what helps to find it in the log. */
export function ErrorPanel({ error, onRetry, title }: ErrorPanelProps) {
  const failure = error instanceof ApiError ? error : null;
  const words = failure ? failure.messages : [error instanceof Error ? error.message : String(error)];
  return (
    <div class="error-panel" role="alert">
      <Status tone={failure?.isDenied ? "warn" : "bad"}>{title ?? headline(failure)}</Status>
      {words.map((word) => (
        <p key={word} class="error-words">
          {word}
        </p>
      ))}
      {failure && failure.status > 0 && (
        <p class="muted small">
          <code>
            {failure.status} {failure.request.verb} {failure.request.target.split("?", 1)[0]}
          </code>
          {failure.requestId && (
            <>
              {" "}
              request <code>{failure.requestId}</code>
            </>
          )}
        </p>
      )}
      {failure?.isDenied && (
        <p class="small muted">Your policies decide this. The screen Access shows what your token may do on a path.</p>
      )}
      {onRetry && (
        <Button icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

function headline(failure: ApiError | null): string {
  if (!failure) return "This screen has failed";
  if (failure.isOffline) return "No connection";
  if (failure.status === 403) return "Not allowed";
  if (failure.status === 404) return "Not found";
  if (failure.status === 429) return "Too many requests";
  if (failure.status >= 500) return "The service has failed";
  return "Refused";
}
