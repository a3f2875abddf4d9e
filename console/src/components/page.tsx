/** Structure of a screen: heading with actions, cards, property lists. */
import type { ComponentChildren } from "preact";

interface Crumb {
  readonly label: string;
  readonly href: string;
}

export function Page({
  title,
  crumbs = [],
  actions,
  about,
  children,
}: {
  readonly title: string;
  readonly crumbs?: readonly Crumb[];
  readonly actions?: ComponentChildren;
  readonly about?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  return (
    <>
      <header class="page-head">
        <div class="page-title">
          {crumbs.length > 0 && (
            <nav class="crumbs" aria-label="Path">
              {crumbs.map(({ label, href }, at) => (
                <span key={href}>
                  {at > 0 && <span aria-hidden="true"> / </span>}
                  <a href={href}>{label}</a>
                </span>
              ))}
            </nav>
          )}
          <h1 tabIndex={-1} data-heading>
            {title}
          </h1>
          {about && <p class="page-about">{about}</p>}
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

export function Card({
  title,
  actions,
  children,
  flush = false,
}: {
  readonly title?: string;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly flush?: boolean;
}) {
  return (
    <section class={flush ? "card card-flush" : "card"}>
      {(title || actions) && (
        <header class="card-head">
          {title && <h2>{title}</h2>}
          {actions && <div class="card-actions">{actions}</div>}
        </header>
      )}
      <div class="card-body">{children}</div>
    </section>
  );
}

/** Names and values; entries without a value are left out. */
export function Properties({
  items,
}: {
  readonly items: readonly (readonly [name: string, value: ComponentChildren])[];
}) {
  return (
    <dl class="properties">
      {items.map(
        ([name, value]) =>
          value !== null &&
          value !== undefined &&
          value !== "" && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** A row of controls above a list. */
export function Toolbar({ children }: { readonly children: ComponentChildren }) {
  return <div class="toolbar">{children}</div>;
}
