import { useId, type ReactNode } from 'react';

/** Attributes that tie an input to its label, hint and error. */
export interface InputTies {
  readonly id: string;
  readonly 'aria-describedby': string | undefined;
  readonly 'aria-invalid': boolean;
}

interface FormFieldProps {
  readonly label: string;
  readonly hint?: ReactNode;
  /** What the API says of this field. */
  readonly error?: string | undefined;
  readonly children: (ties: InputTies) => ReactNode;
}

/** An input with its label, a hint, and the API's error below it. */
export function FormField({ label, hint, error, children }: FormFieldProps) {
  const id = useId();
  const isDescribed = hint !== undefined || error !== undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-describedby': isDescribed ? `${id}-note` : undefined,
        'aria-invalid': error !== undefined,
      })}
      {isDescribed && (
        <div id={`${id}-note`} className="small muted">
          {error !== undefined && <p className="tone-bad">{error}</p>}
          {hint}
        </div>
      )}
    </div>
  );
}
