import { AlertDialog } from '@base-ui/react/alert-dialog';
import type { ReactNode } from 'react';

interface ConfirmProps {
  /** The button that asks; it names the action. */
  readonly action: string;
  readonly question: string;
  readonly children?: ReactNode;
  readonly onConfirm: () => void;
  readonly isDisabled?: boolean;
  readonly isBad?: boolean;
}

/** A button whose action is asked about first. */
export function Confirm({ action, question, children, onConfirm, isDisabled, isBad }: ConfirmProps) {
  return (
    <AlertDialog.Root>
      <AlertDialog.Trigger
        className={isBad === true ? 'button button-bad' : 'button'}
        disabled={isDisabled === true}
      >
        {action}
      </AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="popup dialog">
          <AlertDialog.Title>{question}</AlertDialog.Title>
          <AlertDialog.Description className="muted" render={<div />}>
            {children}
          </AlertDialog.Description>
          <div className="row">
            <AlertDialog.Close className="button button-main" onClick={onConfirm}>
              {action}
            </AlertDialog.Close>
            <AlertDialog.Close className="button">Keep it as it is</AlertDialog.Close>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
