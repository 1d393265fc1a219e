import { Dialog } from '@base-ui/react/dialog';
import { listKeys } from './keys.ts';

/** Lists the keys of the page that is shown. */
export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="popup dialog">
          <Dialog.Title>Keys</Dialog.Title>
          <dl className="keys">
            {listKeys().map(([name, what]) => (
              <div key={name}>
                <dt>
                  <kbd>{name}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
          <div className="row">
            <Dialog.Close className="button">Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
