"""One module for each kind of scenario; `catalog` names all that a run can measure."""
