"""What every object and name has: resources, names, quantities, times, selectors, errors as the API words them."""
