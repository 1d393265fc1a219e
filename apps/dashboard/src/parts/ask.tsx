import { Dialog } from '@base-ui/react/dialog';
import { useId, useState, type InputHTMLAttributes } from 'react';

interface AskProps {
  /** The button that opens the question; it names the action. */
  readonly action: string;
  readonly question: string;
  /** Label of the input. */
  readonly label: string;
  readonly hint: string;
  readonly input?: Pick<
    InputHTMLAttributes<HTMLInputElement>,
    'type' | 'min' | 'step' | 'defaultValue' | 'required' | 'maxLength'
  >;
  readonly onAnswer: (text: string) => void;
}

/** A button whose action needs a word or a number. */
export function Ask({ action, question, label, hint, input, onAnswer }: AskProps) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  return (
    <Dialog.Root open={isOpen} onOpenChange={setOpen}>
      <Dialog.Trigger className="button">{action}</Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="popup dialog">
          <Dialog.Title>{question}</Dialog.Title>
          <form
            className="field"
            onSubmit={(event) => {
              event.preventDefault();
              const text = new FormData(event.currentTarget).get('answer');
              onAnswer(typeof text === 'string' ? text.trim() : '');
              setOpen(false);
            }}
          >
            <label htmlFor={id}>{label}</label>
            <input {...input} id={id} name="answer" className="input" aria-describedby={`${id}-hint`} />
            <p id={`${id}-hint`} className="small muted">
              {hint}
            </p>
            <div className="row more">
              <button className="button button-main">{action}</button>
              <Dialog.Close className="button">Keep it as it is</Dialog.Close>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
