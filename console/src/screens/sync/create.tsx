import { useState } from "preact/hooks";
import { api, messagesOf, wireRequest } from "../../api/client.ts";
import { go } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Card, Page } from "../../components/page.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import type { FormValue } from "../../lib/settings.ts";
import { providerName } from "../../lib/text.ts";
import { boardHref, createHref, destinationHref } from "./addresses.ts";
import { readAppNames } from "./apps.tsx";
import { newTexts, type ProviderType, readTypes, withoutSecrets } from "./fields.ts";
import { intoView, Plan } from "./plan.tsx";
import type { PlannedObject } from "./reads.ts";

/** Why a name is refused, while it is typed; the service has the same rule. */
const nameProblem = (name: string): string | null =>
  name === "" || /^[a-z\d][\w.-]{0,127}$/i.test(name)
    ? null
    : "Letters, digits, _ . and - only, with a letter or digit first.";

const WRITE = "POST /v1/sys/sync/destinations/{type}/{name}";

/** The provider first, then a form made from its schema. */
export function CreateDestination({ type }: { readonly type: string }) {
  const types = useResource(["destination-types"], readTypes);
  const provider = types.value?.find((entry) => entry.type === type);
  const crumbs = [{ label: "Sync", href: boardHref() }];
  if (provider)
    return (
      <Page
        title={`New destination: ${providerName(type)}`}
        crumbs={[...crumbs, { label: "Choose a provider", href: createHref() }]}
      >
        <Form key={type} provider={provider} />
      </Page>
    );
  return (
    <Page title="Create destination" crumbs={crumbs} about="Where do copies of secrets go?">
      <Loaded resource={types} label="The providers">
        {(all) => (
          <ul class="sync-types">
            {all.map(({ type: name, about }) => (
              <li key={name}>
                <a href={createHref(name)}>
                  <strong>{providerName(name)}</strong>
                  <span class="muted">{about}</span>
                </a>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Page>
  );
}

function Form({ provider: { type, schema, first, advanced, hidden } }: { readonly provider: ProviderType }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState<FormValue>({});
  const [plan, setPlan] = useState<readonly PlannedObject[] | null>(null);
  const apps = useResource(["app names"], readAppNames, { skip: type !== "repo-host" });
  const options = { path: { type, name }, body: value as Record<string, never>, sensitive: true };
  const preview = useAction(async () => {
    setPlan(null);
    const { data } = await api(WRITE, { ...options, query: { dry_run: true } });
    if ("planned" in data) setPlan(data.planned);
  });
  const create = useAction(async () => {
    await api(WRITE, options);
    toast(`${name} is created.`);
    go(destinationHref({ type, name }, { verify: "1" }));
  });
  const error = create.error ?? preview.error;
  const problems = fieldProblems(messagesOf(error));
  const edited = (): void => {
    setPlan(null);
    create.clear();
    preview.clear();
  };
  const own = newTexts(type);
  const texts = apps.value ? { ...own, app_name: { ...own["app_name"], list: apps.value } } : own;
  const isOther =
    error !== null && !Object.keys(problems).some((field) => field === "name" || field in (schema.properties ?? {}));
  return (
    <div class="sync-form">
      <Card>
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void create.run();
          }}
        >
          <TextField
            label="Name"
            value={name}
            onChange={(entered) => {
              setName(entered);
              edited();
            }}
            required
            autofocus
            error={nameProblem(name) ?? problems["name"]}
            hint="How this service calls the destination, such as production."
          />
          <SchemaForm
            schema={schema}
            value={value}
            onChange={(entered) => {
              setValue(entered);
              edited();
            }}
            texts={texts}
            hidden={hidden}
            first={first}
            advanced={advanced}
            problems={problems}
          />
          {isOther && <ErrorPanel error={error} />}
          {plan && (
            <section aria-label="Preview" class="stack" ref={intoView}>
              <Status tone="ok">The form is complete; the login is checked once it is created</Status>
              {plan.length > 0 && <Plan planned={plan} />}
            </section>
          )}
          <div class="row">
            <Button
              type="submit"
              kind="primary"
              isBusy={create.isBusy}
              disabled={nameProblem(name) !== null}
              needs={wireRequest(WRITE, { path: options.path })}
            >
              Create destination
            </Button>
            <Button
              onClick={() => void preview.run()}
              isBusy={preview.isBusy}
              disabled={name === "" || nameProblem(name) !== null}
            >
              Check without creating
            </Button>
            <LinkButton href={boardHref()} kind="quiet">
              Cancel
            </LinkButton>
          </div>
          <AsCommand
            request={wireRequest(WRITE, { ...options, body: withoutSecrets(value) as Record<string, never> })}
          />
        </form>
      </Card>
      <aside class="muted">
        {type === "in-mem" ? (
          <p>The objects are kept in the service, so there is nothing to log in to and nothing to pay.</p>
        ) : (
          <>
            <p>
              Creating a destination changes nothing at {providerName(type)}. The credentials are tried right
              afterwards, without writing anything.
            </p>
            <p>Values of secret fields are stored sealed, and never shown again.</p>
          </>
        )}
      </aside>
    </div>
  );
}
