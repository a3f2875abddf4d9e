import { useEffect, useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { useAsked } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import { syncWord } from "../../lib/sync-status.ts";
import { useSecretNames } from "../secrets/secret-names.ts";
import { destinationPath } from "./addresses.ts";
import { DestinationField } from "./destination-field.tsx";
import { intoView, Plan } from "./plan.tsx";
import { type DestinationRef, isFailing, keyOf, type PlannedObject, worstOf } from "./reads.ts";

interface Props {
  /** One destination, or those to choose from. */
  readonly destinations: readonly DestinationRef[];
  readonly onDone: () => void;
}

/** Button and form that associate a secret with a destination. */
export function SyncSecretButton({ destinations, onDone, kind }: Props & { readonly kind?: "primary" }) {
  const [isOpen, setOpen] = useState(false);
  useAsked("new", () => setOpen(true));
  return (
    <>
      <Button
        icon="sync"
        kind={kind ?? "normal"}
        needs={`POST ${destinationPath(destinations.length === 1 ? destinations[0] : undefined)}/associations/set`}
        onClick={() => setOpen(true)}
      >
        Sync a secret
      </Button>
      {isOpen && (
        <SyncSecretForm
          destinations={destinations}
          onClose={() => setOpen(false)}
          onDone={() => {
            setOpen(false);
            onDone();
          }}
        />
      )}
    </>
  );
}

const SET = "POST /v1/sys/sync/destinations/{type}/{name}/associations/set";
/** The mount that a new deployment has: chosen before the others, whose names may sort before it. */
const USUAL_MOUNT = "secret";

/** A secret that does not exist is refused without a field. */
const secretProblem = (problems: Readonly<Record<string, string>>): string | undefined =>
  problems["secret_name"] ?? (problems[""]?.startsWith("secret not found") ? problems[""] : undefined);

interface FormProps extends Props {
  readonly onClose: () => void;
  /** A secret that is chosen already. */
  readonly of?: { readonly mount: string; readonly secret: string };
}

export function SyncSecretForm({ destinations, onClose, onDone, of }: FormProps) {
  const [only] = destinations;
  const [key, setKey] = useState(destinations.length === 1 && only ? keyOf(only) : "");
  const [mount, setMount] = useState(of?.mount ?? "");
  const [secret, setSecret] = useState(of?.secret ?? "");
  const [planned, setPlanned] = useState<readonly PlannedObject[] | null>(null);
  const mounts = useResource(["kv mounts"], readVersionedMounts, { skip: of !== undefined });
  const names = useSecretNames(of ? "" : mount, secret);
  useEffect(() => {
    const first = mounts.value?.find((path) => path === USUAL_MOUNT) ?? mounts.value?.[0];
    if (mount === "" && first) setMount(first);
  }, [mounts.value, mount]);

  const ref = destinations.find((entry) => keyOf(entry) === key) ?? { type: "TYPE", name: "NAME" };
  const isReady = key !== "" && mount !== "" && secret !== "";
  const options = { path: { ...ref }, body: { mount, secret_name: secret } };
  const preview = async (): Promise<void> => {
    const { data } = await api(SET, { ...options, query: { dry_run: true } });
    if ("planned" in data) setPlanned(data.planned);
  };
  const set = async (): Promise<void> => {
    const { data } = await api(SET, options);
    const worst = "associated_secrets" in data ? worstOf(Object.values(data.associated_secrets)) : undefined;
    const status = worst?.sync_status ?? "PENDING";
    if (isFailing(status)) toast(`${secret}: ${worst?.error_message ?? syncWord(status)}`, "bad");
    else toast(status === "SYNCED" ? `${secret} is synced.` : `${secret}: ${syncWord(status).toLowerCase()}.`);
    onDone();
  };
  const subject = JSON.stringify([key, mount, secret]);
  useEffect(() => setPlanned(null), [subject]);
  return (
    <FormDialog
      title={of ? `Sync ${of.secret}` : "Sync a secret"}
      verb="Sync secret"
      onClose={onClose}
      perform={set}
      preview={preview}
      isReady={isReady}
      subject={subject}
      isShownAtField={(problems) => Boolean(problems["mount"] ?? secretProblem(problems))}
      after={
        planned && (
          <section aria-label="Preview" class="stack" ref={intoView}>
            <p class="muted">The destination would get these objects. Nothing has changed yet.</p>
            <Plan planned={planned} />
          </section>
        )
      }
      request={wireRequest(SET, options)}
    >
      {({ problems }) => (
        <>
          {(of || destinations.length > 1) && (
            <DestinationField destinations={destinations} value={key} onChange={setKey} />
          )}
          {!of && (
            <>
              {mounts.value && mounts.value.length > 0 ? (
                <SelectField
                  label="Secrets engine"
                  value={mount}
                  onChange={setMount}
                  options={mounts.value.map((path) => ({ value: path, label: path }))}
                  error={problems["mount"]}
                />
              ) : (
                <TextField
                  label="Secrets engine"
                  value={mount}
                  onChange={setMount}
                  required
                  mono
                  error={problems["mount"]}
                />
              )}
              <TextField
                label="Path of the secret"
                value={secret}
                onChange={setSecret}
                list={names}
                placeholder="Choose a secret, or type its path"
                required
                mono
                autofocus
                error={secretProblem(problems)}
                hint="Later changes of the secret are pushed automatically."
              />
            </>
          )}
        </>
      )}
    </FormDialog>
  );
}

/** Mounts of version 2: only their secrets can be synced. */
async function readVersionedMounts(signal: AbortSignal): Promise<string[]> {
  const { data } = await api("GET /v1/sys/internal/ui/mounts", { signal, quiet: true });
  return Object.entries(data.secret)
    .filter(([, { type, options }]) => type === "kv" && options?.["version"] === "2")
    .map(([path]) => path.replace(/\/$/, ""));
}
